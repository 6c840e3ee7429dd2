"""The versions that a project asks for, read from files of every format."""

import os

import pytest

from gpudoctor.model.signs.project import Asked
from gpudoctor.vitals.project import read_project_versions


def asked(folder, name="torch", script="train.py"):
    path = folder / script
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("import torch\n")
    found = read_project_versions([str(path)]).of(str(path), name)
    return {(os.path.basename(item.path), item.wanted, item.line) for item in found}


@pytest.mark.parametrize(
    ("file", "text", "wanted", "line"),
    [
        ("requirements.txt", "numpy\ntorch==1.7.1+cu110  # the node's driver\n", "==1.7.1+cu110", 2),
        ("requirements-gpu.txt", "--find-links x\ntorch >= 1.6, < 2\n", "<2,>=1.6", 2),
        ("environment.yml", "dependencies:\n  - python=3.8\n  - pytorch::pytorch=1.12\n", "==1.12.*", 3),
        ("env.yaml", "dependencies:\n  - pip:\n    - torch~=1.9.0\n", "~=1.9.0", 3),
        ("pyproject.toml", '[project]\nname = "x"\ndependencies = ["torch<2.1"]\n', "<2.1", 3),
        ("pyproject.toml", '[tool.poetry.dependencies]\npython = "^3.8"\ntorch = "^1.13"\n', ">=1.13,<2", 3),
        ("pyproject.toml", '[tool.poetry.dependencies]\ntorch = { version = "~1.13.1" }\n', ">=1.13.1,<1.14", 2),
        ("setup.py", "needs = [\n 'torch<1.9',\n]\nsetup(install_requires=needs)\n", "<1.9", 2),
    ],
)  # fmt: skip
def test_formats(tmp_path, file, text, wanted, line):
    (tmp_path / ".git").mkdir()
    (tmp_path / file).write_text(text)
    assert asked(tmp_path) == {(file, wanted, line)}


@pytest.mark.parametrize(
    ("wanted", "admitted", "refused", "newest"),
    [
        ("==1.7.1+cu110", ["1.7.1", "1.7.1+cpu"], ["1.7.2", "2.13.0"], "1.7.1"),
        ("==1.7.*", ["1.7.1", "1.7"], ["1.70", "2.0"], "1.7.99999"),
        ("<2", ["1.13.1"], ["2.0.0", "2.13.0+cpu"], "1.99999"),
        ("~=1.9.0", ["1.9.4"], ["1.10.0"], "1.9.99999"),
        ("~=1.9", ["1.13"], ["2.0"], "1.99999"),
        (">=1.4", ["1.4", "2.13.0a0+git12"], ["1.3.9"], None),
        ("", ["0.4"], [], None),
    ],
)
def test_which_releases_a_line_admits(wanted, admitted, refused, newest):
    line = Asked(name="torch", wanted=wanted, path="r.txt", line=1, folder="")
    assert [version for version in admitted if not line.admits(version)] == []
    assert [version for version in refused if line.admits(version)] == []
    assert line.newest == newest
