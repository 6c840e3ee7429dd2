"""What other tools read: the GitHub Action, the hooks of pre-commit, the manual page, lines that install."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
ACTION = yaml.safe_load((ROOT / "action.yml").read_text())


def test_the_action_takes_no_text_of_a_workflow_into_a_command():
    steps = ACTION["runs"]["steps"]
    assert all("${{" not in step.get("run", "") for step in steps)
    named = set(re.findall(r"inputs\.([\w-]+)", str(steps)))
    assert named == set(ACTION["inputs"])
    workflow = yaml.safe_load((ROOT / "examples/github/gpudoctor.yml").read_text())
    used = workflow["jobs"]["check"]["steps"][-1]
    assert used["uses"] == "./.gpudoctor" and set(used["with"]) <= named


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash here")
def test_the_step_of_the_action_writes_its_report_and_keeps_the_exit_code(tmp_path):
    (step,) = (step for step in ACTION["runs"]["steps"] if step.get("id") == "check")
    program = tmp_path / "gpudoctor"
    program.write_text('#!/bin/bash\nprintf "[%s]" "$@" >> calls; echo >> calls\necho report\nexit 1\n')
    program.chmod(0o755)
    given = {"PATHS": "train.py a*b", "FAIL_ON": "warning", "SELECT": "", "IGNORE": "ENV; rm -rf x", "SARIF": "g.sarif",
             "GITHUB_OUTPUT": "out", "GITHUB_STEP_SUMMARY": "summary", "PATH": f"{tmp_path}:{os.environ['PATH']}"}  # fmt: skip
    done = subprocess.run(["bash", "-e", "-o", "pipefail", "-c", step["run"]], cwd=tmp_path, env=given, timeout=30)
    assert done.returncode == 0
    first, second = (tmp_path / "calls").read_text().splitlines()
    shared = "[check][train.py][a*b][--quiet][--fail-on][warning][--ignore][ENV; rm -rf x]"
    assert first == shared + "[--format][sarif][--output][g.sarif]" and second == shared + "[--format][markdown]"
    assert (tmp_path / "out").read_text() == "sarif-file=g.sarif\nexit-code=1\n"
    assert (tmp_path / "summary").read_text() == "report\n"


def test_the_hooks_of_pre_commit_name_flags_that_exist():
    from gpudoctor.cli.parser import build_parser

    for hook in yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text()):
        program, *words = hook["entry"].split()
        assert program == "gpudoctor" and hook["language"] == "python"
        assert build_parser("check").parse_args([*words, "train.py"]).targets == ["train.py"]


def test_no_document_installs_from_an_index_that_lacks_the_package():
    """gpudoctor comes from its repository: an index may be named once the package is there."""
    index = re.compile(
        r"(?:pip install|pipx install|uv add|uv pip install|uv tool install|uvx)\s+(?:-\S+\s+)*[\"']?gpudoctor\b"
    )
    pages = [ROOT / "README.md", ROOT / "action.yml", *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.*")]
    pages += [*(ROOT / "gpudoctor").rglob("*.py")]
    assert [
        str(page.relative_to(ROOT)) for page in pages if page.is_file() and index.search(page.read_text("utf-8"))
    ] == []
