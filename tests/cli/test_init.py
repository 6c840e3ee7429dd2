"""`gpudoctor init`: the section it writes is valid, and what was there stays."""

import sys

import pytest

from gpudoctor.cli import main
from gpudoctor.engine.registry import load_registry
from gpudoctor.engine.settings import read_settings

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

REGISTRY = load_registry()
BEFORE = '[project]\nname = "x"  # mine\n\n[tool.ruff]\nline-length = 99\n'


@pytest.fixture
def project(tmp_path):
    folder = tmp_path / "a project"
    (folder / ".git").mkdir(parents=True)
    return folder


def test_settings_of_a_pyproject_stay(project, capsys):
    path = project / "pyproject.toml"
    path.write_text(BEFORE + '[tool.gpudoctor]\nfail-on = "note"\n')
    assert main(["init", str(project)]) == 0
    assert "nothing was changed" in capsys.readouterr().out and not (project / "gpudoctor.toml").exists()


def test_a_new_file_is_made_once(project, capsys):
    assert main(["init", str(project), "--print"]) == 0
    assert "fail-on" in capsys.readouterr().out and not list(project.glob("*.toml"))
    assert main(["init", str(project)]) == 0
    path = project / "gpudoctor.toml"
    assert read_settings(path, REGISTRY).select == ()
    assert main(["init", str(project)]) == 0
    assert "nothing was changed" in capsys.readouterr().out.splitlines()[-1]


def test_the_examples_in_its_comments_are_valid_too(project):
    assert main(["init", str(project)]) == 0
    path = project / "gpudoctor.toml"
    lines = path.read_text().splitlines()
    examples = [
        line[2:]
        for line in lines
        if line.startswith(("# [", '# "', "# baseline")) or (" = " in line[:40] and line[:2] == "# ")
    ]
    keys = [line for line in lines if line and not line.startswith("#")]
    text = "\n".join([*keys, *(line.replace("# ", "", 1) for line in examples)])
    tomllib.loads(text)
    path.write_text(text)
    settings = read_settings(path, REGISTRY)
    assert settings.thresholds and settings.per_file_ignores and settings.ignore and settings.baseline


def test_a_folder_that_is_not_there_is_refused(project):
    assert main(["init", str(project / "nowhere")]) == 2
