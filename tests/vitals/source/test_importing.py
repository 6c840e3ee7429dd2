from pathlib import Path

from gpudoctor.vitals.source import read_source


def names_read(entry: Path) -> list[str]:
    return sorted(Path(script.path).name for script in read_source([entry]).scripts)


def test_a_module_of_python_is_not_a_file_further_up(tmp_path: Path) -> None:
    (tmp_path / "job").mkdir()
    (tmp_path / "time.py").write_text("value = 1\n")
    (tmp_path / "nets.py").write_text("value = 1\n")
    entry = tmp_path / "job" / "train.py"
    entry.write_text("import time\nimport nets\n")
    assert names_read(entry) == ["nets.py", "train.py"]
    (tmp_path / "job" / "time.py").write_text("value = 2\n")  # Python looks beside the script first
    assert names_read(entry) == ["nets.py", "time.py", "train.py"]
