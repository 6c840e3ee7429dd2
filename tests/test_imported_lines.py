"""How many of our own lines each command imports: the numbers only go down."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
COUNT = """
import contextlib, io, sys
from pathlib import Path
from gpudoctor.cli import main
with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()), contextlib.suppress(SystemExit):
    main(sys.argv[1:])
ours = [m for name, m in sys.modules.items() if name.partition(".")[0] in ("gpudoctor", "gpudoctor_checks", "gpudoctor_rules")]
print(sum(Path(m.__file__).read_bytes().count(b"\\n") for m in ours if getattr(m, "__file__", None)))
"""
LOG = (
    'step 1 loss 2.0\nTraceback (most recent call last):\n  File "t.py", line 3, in <module>\n    f()\nValueError: no\n'
)
MOST = {
    ("--help",): 1100,
    ("estimate", "7b"): 7000,
    ("explain", "oom"): 6100,
    ("explain", "DATA001"): 6000,
    ("autopsy", "job.log"): 23800,
    ("check", "train.py"): 38000,
    ("run", "--", sys.executable, "-c", "pass"): 13200,
}
"""Command to lines. At the tag `large`, autopsy imported 106,201, check 114,154, explain 91,020 and run 94,914."""


@pytest.mark.parametrize("words", MOST, ids=lambda words: " ".join(words[:2]))
def test_a_command_imports_only_what_it_needs(tmp_path, words):
    (tmp_path / "job.log").write_text(LOG)
    (tmp_path / "train.py").write_text((ROOT / "examples" / "train_crops.py").read_text())
    done = subprocess.run(
        [sys.executable, "-c", COUNT, *words], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=True
    )
    assert int(done.stdout.split()[-1]) <= MOST[words]
