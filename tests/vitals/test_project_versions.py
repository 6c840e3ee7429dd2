"""The versions that a project asks for, read from files of every format."""

import contextlib
import os

import pytest

from gpudoctor.model import Unavailable
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
        ("requirements.txt", "https://x/cu110/torch-1.7.1%2Bcu110-cp38-cp38-linux_x86_64.whl\n", "==1.7.1+cu110", 1),
        ("req.txt", "pytorch=1.7.1=py3.8_cuda11\n", "==1.7.1.*", 1),
        ("requirements.txt", '""" what we ran """\n  - pytorch=1.4.0=py3.7_cuda10\n  - pip:\n', "==1.4.0.*", 2),
        ("requirements.txt", "# Name  Version  Build  Channel\npy-cpuinfo 9.0 main\ntorch  1.4.0  pypi_0  pypi\n", "==1.4.0.*", 3),
        ("requirements.txt", "Package Version\n------- -------\ntorch   1.4.0\n", "==1.4.0.*", 3),
        ("README.md", "# Install\n```bash\npip install torch==1.6.0 \\\n  tqdm\n```\n", "==1.6.0", 3),
        ("Readme.rst", "Type::\n\n    $ conda install pytorch=1.5 cudatoolkit -c pytorch\n", "==1.5.*", 3),
        ("environment.yml", "dependencies:\n  - python=3.8\n  - pytorch::pytorch=1.12\n", "==1.12.*", 3),
        ("env.yaml", "dependencies:\n  - pip:\n    - torch~=1.9.0\n", "~=1.9.0", 3),
        ("pyproject.toml", '[project]\nname = "x"\ndependencies = ["torch<2.1"]\n', "<2.1", 3),
        ("pyproject.toml", '[tool.poetry.dependencies]\npython = "^3.8"\ntorch = "^1.13"\n', ">=1.13,<2", 3),
        ("pyproject.toml", '[tool.poetry.dependencies]\ntorch = { version = "~1.13.1" }\n', ">=1.13.1,<1.14", 2),
        ("setup.py", "needs = [\n 'torch<1.9',\n]\nsetup(install_requires=needs)\n", "<1.9", 2),
        ("Dockerfile", "# GPU\nFROM pytorch/pytorch:1.9.0-cuda11.1-cudnn8-runtime\n", "==1.9.0", 2),
        ("Dockerfile", 'ARG PYTORCH="1.6.0"\nFROM pytorch/pytorch:${PYTORCH}-cuda10.1\n', "==1.6.0", 2),
        ("setup.sh", "#!/bin/bash\npip install torch==1.8.1+cu111 -f https://x.html\n", "==1.8.1+cu111", 2),
        ("install_env.sh", "set -e\nconda install -y pytorch=1.10 -c pytorch\n", "==1.10.*", 2),
        ("Dockerfile.gpu", "RUN apt update && \\\n  pip install -U torch==1.5.0 && ls\n", "==1.5.0", 1),
    ],
)  # fmt: skip
def test_formats(tmp_path, file, text, wanted, line):
    (tmp_path / ".git").mkdir()
    (tmp_path / file).write_text(text)
    assert asked(tmp_path) == {(file, wanted, line)}


@pytest.mark.parametrize(
    "text",
    [
        "We ran it with torch 1.6.0; pip install torch==1.6.0 works, too.\n",
        "    pip install torch==1.6.0\n    pip install torch==1.7.0  # CUDA 11\n",
        "    pip install torch torchvision\n",
        "    pip install 'torch>=1.6'\n",
    ],
    ids=["prose", "a choice", "any", "a range"],
)
def test_a_manual_that_pins_no_release_names_none(tmp_path, text):
    (tmp_path / ".git").mkdir()
    (tmp_path / "README.md").write_text(text)
    with contextlib.suppress(Unavailable):
        assert asked(tmp_path) == set()


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


def told(folder, text):
    (folder / ".git").mkdir()
    (folder / "README.md").write_text(text)
    (folder / "train.py").write_text("import torch\n")
    path = str(folder / "train.py")
    try:
        return [(item.wanted, item.line) for item in read_project_versions([path]).told(path, "torch")]
    except Unavailable:
        return []


@pytest.mark.parametrize(
    ("text", "wanted", "line"),
    [
        ("# Needs\nPytorch 0.3\n", "==0.3.*", 2),
        ("* [PyTorch](https://pytorch.org/) (0.4.0)\n", "==0.4.0", 1),
        ("This code requires **PyTorch** 1.x.\n", "==1.*", 1),
        ("We tested it with Pytorch 0.3.0/0.4.0/1.0.0 and others.\n", "==1.0.0", 1),
        ("| Package | Version |\n|---|---|\n| torch | 1.4.0 |\n", "==1.4.0", 3),
        ("- pytorch 0.4.0 (it does not support 0.4.1 or higher)\n", "==0.4.0", 1),
        ("- PyTorch 1.0+\n", ">=1.0", 1),
        ("| | Minimum |\n|---|---|\n| torch | 2.1.0 |\n", ">=2.1.0", 3),
    ],
)
def test_a_sentence_of_a_readme_tells_a_release(tmp_path, text, wanted, line):
    assert told(tmp_path, text) == [(wanted, line)]


@pytest.mark.parametrize(
    "text",
    [
        "The format of tensors has changed since PyTorch 1.6, as you know.\n",
        "[![x](https://img.shields.io/badge/PyTorch-1.7-red)](https://pytorch.org)\n",
        "- torchvision 0.4.0\n- pytorch-lightning 1.9.5\n- PyTorch\n- Torch7\n- PyTorch3D 0.3\n",
    ],
)
def test_a_sentence_that_tells_no_release_of_torch(tmp_path, text):
    assert told(tmp_path, text) == []


NOTEBOOK = """{"cells": [
 {"cell_type": "markdown", "source": "pip install torch==1.4"},
 {"cell_type": "code", "source": ["# setup\\n", "%pip install -q \\"torch==2.4.0\\" tensorboard\\n", "EXTRA"]},
 {"cell_type": "code", "source": "import torch"}
], "metadata": {}}"""


def noted(folder, extra="print(1)", cell=None):
    (folder / ".git").mkdir(exist_ok=True)
    path = folder / "train.ipynb"
    path.write_text(cell or NOTEBOOK.replace("EXTRA", extra))
    try:
        found = read_project_versions([str(path)])
    except Unavailable:
        return set()
    return {(os.path.basename(item.path), item.wanted, item.line) for item in found.of(str(path), "torch")}


def test_a_notebook_installs_its_own_versions(tmp_path):
    (tmp_path / "requirements.txt").write_text("torch==1.7.1\n")
    assert noted(tmp_path) == {("train.ipynb", "==2.4.0", 2)}
    assert asked(tmp_path) == {("requirements.txt", "==1.7.1", 1)}  # of a script beside it
    several = "!pip install transformers \\\\\\n  --upgrade 'torch==2.4.0'"
    assert noted(tmp_path, several) == {("train.ipynb", "==2.4.0", 2)}


@pytest.mark.parametrize("extra", ["!pip install torch==2.1.0", "!pip install torch"])
def test_two_versions_in_one_notebook_are_a_choice(tmp_path, extra):
    assert noted(tmp_path, extra) == set()


@pytest.mark.parametrize(
    ("package", "setup", "wanted"),
    [
        ("peft-main/src/peft", "peft-main/setup.py", "==0.4.0"),
        ("third_party/timm/timm", "third_party/timm/pyproject.toml", "==0.4.0"),
        ("baselines/peft", None, None),
    ],
)
def test_the_source_tree_of_a_package_is_the_projects_own(tmp_path, package, setup, wanted):
    (tmp_path / ".git").mkdir()
    (tmp_path / package).mkdir(parents=True)
    (tmp_path / package / "__init__.py").write_text('__version__ = "0.4.0"\n')
    (tmp_path / "requirements.txt").write_text("numpy\n")
    if setup is not None:
        (tmp_path / setup).write_text("")
    name = package.rpartition("/")[2]
    assert {item[1] for item in asked(tmp_path, name)} == ({wanted} if wanted else set())
