from pathlib import Path

import pytest

from gpudoctor.vitals.source import read_source


def names_read(entry: Path) -> list[str]:
    return sorted(Path(script.path).name for script in read_source([entry]).scripts)


@pytest.mark.parametrize(
    "line",
    [
        "sys.path.append('parts')",
        "sys.path.insert(0, './parts')",
        "sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), 'parts'))",
        "sys.path.insert(0, str(Path(__file__).resolve().parent / 'parts'))",
    ],
)
@pytest.mark.parametrize("name", ["nets", "datasets"])
def test_folders_that_the_program_adds_are_looked_into(tmp_path: Path, line: str, name: str) -> None:
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / f"{name}.py").write_text("value = 1\n")
    entry = tmp_path / "train.py"
    entry.write_text(f"import os, sys\nfrom pathlib import Path\n{line}\nimport {name}\n")
    assert names_read(entry) == [f"{name}.py", "train.py"]


def test_a_folder_beside_the_one_of_the_script(tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "tools").mkdir()
    (tmp_path / "lib" / "nets.py").write_text("value = 1\n")
    entry = tmp_path / "tools" / "train.py"
    entry.write_text("import sys\nsys.path.append('lib')\nimport nets\n")
    assert names_read(entry) == ["nets.py", "train.py"]


def test_what_is_not_told_or_not_there_adds_nothing(tmp_path: Path) -> None:
    entry = tmp_path / "train.py"
    added = "sys.path.append(sys.argv[1])\nsys.path.append('gone')\nsys.path.append()\n"
    entry.write_text(f"import sys\n{added}import nets\n")
    assert names_read(entry) == ["train.py"]


def test_a_module_of_python_is_not_a_file_further_up(tmp_path: Path) -> None:
    (tmp_path / "job").mkdir()
    (tmp_path / "time.py").write_text("value = 1\n")
    (tmp_path / "nets.py").write_text("value = 1\n")
    entry = tmp_path / "job" / "train.py"
    entry.write_text("import time\nimport nets\n")
    assert names_read(entry) == ["nets.py", "train.py"]
    (tmp_path / "job" / "time.py").write_text("value = 2\n")  # Python looks beside the script first
    assert names_read(entry) == ["nets.py", "time.py", "train.py"]
