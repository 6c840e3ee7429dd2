"""`gpudoctor init`: the section it writes is valid, and what was there stays."""

import sys

import pytest

from gpudoctor.cli import main
from gpudoctor.engine.registry import load_registry
from gpudoctor.engine.settings import find_settings_file, read_settings

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


@pytest.mark.parametrize("before", [BEFORE, BEFORE.rstrip(), BEFORE.replace("\n", "\r\n"), ""])
def test_a_section_is_added_and_the_rest_stays(project, before):
    path = project / "pyproject.toml"
    path.write_bytes(before.encode())
    path.chmod(0o640)
    assert main(["init", str(project)]) == 0
    after = path.read_bytes().decode()
    assert after.startswith(before) and path.stat().st_mode & 0o777 == 0o640
    assert ("\r\n" in after) is ("\r\n" in before) and "\r\r" not in after
    assert find_settings_file(project) == path and read_settings(path, REGISTRY).fail_on == "error"
    assert main(["init", str(project)]) == 0
    assert path.read_bytes().decode() == after


def test_without_a_project_file_a_new_one_is_made(project, capsys):
    assert main(["init", str(project), "--print"]) == 0
    assert "fail-on" in capsys.readouterr().out and not list(project.glob("*.toml"))
    assert main(["init", str(project)]) == 0
    path = project / "gpudoctor.toml"
    assert read_settings(path, REGISTRY).select == ()
    assert main(["init", str(project)]) == 0
    assert "nothing was changed" in capsys.readouterr().out.splitlines()[-1]


@pytest.mark.parametrize("name", ["pyproject.toml", "gpudoctor.toml"])
def test_the_examples_in_its_comments_are_valid_too(project, name):
    (project / name).write_text("") if name == "pyproject.toml" else None
    assert main(["init", str(project)]) == 0
    path = project / name
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


def test_a_file_that_is_no_toml_is_not_touched(project, capsys):
    (project / "pyproject.toml").write_text("[project\n")
    assert main(["init", str(project)]) == 2
    assert "not valid TOML" in capsys.readouterr().err
    assert (project / "pyproject.toml").read_text() == "[project\n"
    assert main(["init", str(project / "nowhere")]) == 2
