"""How many of our own lines and files each command imports: the numbers only go down."""

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
files = {m.__file__ for m in ours if getattr(m, "__file__", None)}
print(sum(Path(file).read_bytes().count(b"\\n") for file in files), len(files))
"""
LOG = 'Traceback (most recent call last):\n  File "t.py", line 3, in <module>\n    f()\nValueError: no\n'
MOST = {
    ("--help",): (1100, 12),
    ("estimate", "7b"): (7000, 56),
    ("explain", "oom"): (4500, 42),
    ("explain", "DATA001"): (4400, 41),
    ("autopsy", "job.log"): (23000, 166),
    ("check", "train.py"): (37500, 249),
    ("check", "train.py", "--select", "DATA001"): (26300, 176),
    ("check", "--select", "GPU001"): (14700, 120),
    ("run", "--", sys.executable, "-c", "pass"): (13000, 107),
}
"""Command to lines and files. At the tag `large`, autopsy imported 106,201, check 114,154, explain 91,020, run 94,914."""


@pytest.mark.parametrize("words", MOST, ids=lambda words: " ".join(words[:4]))
def test_a_command_imports_only_what_it_needs(tmp_path, words):
    (tmp_path / "job.log").write_text(LOG)
    (tmp_path / "train.py").write_text((ROOT / "examples" / "train_crops.py").read_text())
    for count in (["explain", "oom"], words):  # the first writes the index of the checks anew where it is out of date
        command = [sys.executable, "-c", COUNT, *count]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=True)
    assert all(map(int.__le__, map(int, done.stdout.split()[-2:]), MOST[words])), done.stdout
