"""The working folder is the user's: a file `random.py` in it is none of gpudoctor's modules."""

import os
import subprocess
import sys

import pytest

from gpudoctor.model.child_process import child_code

NAMES = [
    "argparse", "csv", "difflib", "gettext", "gzip", "json", "random", "shutil", "statistics", "subprocess",
    "gpudoctor_checks",
]  # fmt: skip


@pytest.fixture
def folder(tmp_path):
    line = "import pathlib, sys; pathlib.Path('taken').write_text(__name__); sys.exit('taken')\n"
    for name in NAMES:
        (tmp_path / f"{name}.py").write_text(line)
    return tmp_path


@pytest.mark.parametrize("start", [["-m", "gpudoctor"], ["-m", "gpudoctor.cli"], ["-c", child_code("gpudoctor.cli")]])
def test_nothing_of_the_working_folder_is_imported(folder, start):
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONSAFEPATH")}
    done = subprocess.run(
        [sys.executable, *start, "list"], cwd=folder, capture_output=True, text=True, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "DATA001" in done.stdout
    assert not (folder / "taken").exists()


def test_a_child_finds_what_the_interpreter_finds(folder):
    (folder / "psutil.py").write_text("raise SystemExit('not psutil')\n")
    code = child_code("gpudoctor.cli").replace(
        "from gpudoctor.cli import main; sys.exit(main())", "import psutil; print(psutil.__version__)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "not psutil" not in done.stderr
