"""`gpudoctor run` reads what a command printed that died before a rank reported, if that went to a file."""

import json
import os
import pty
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from shell_lines import run_line

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
PYTHON = shlex.quote(sys.executable)
FAILS = "import sys\nprint('starting', flush=True)\nimport flash_attn_of_nobody\n"
CAUSE = "ModuleNotFoundError: No module named 'flash_attn_of_nobody'"


def run(
    folder: Path, streams: str, script: str = FAILS, command: str = f"{PYTHON} main.py", flags: str = ""
) -> tuple[int, dict[str, Any]]:
    """The exit code and the report of `gpudoctor run -- COMMAND`; in `streams`, {} is the command line."""
    (folder / "main.py").write_text(script)
    words = "gpudoctor run --quiet --recording rec --format json --output report.json"
    line = "set -o pipefail; " + streams.format(f"{words} {flags} -- {command}")
    return run_line(line, folder), json.loads((folder / "report.json").read_text())


def verdict(report: dict[str, Any]) -> str:
    return str(report["summary"]["verdict"])


def codes(report: dict[str, Any]) -> list[str]:
    return [item["code"] for item in report["findings"] if item["severity"] == "error"]


def test_the_cause_is_read_from_the_file_that_the_output_goes_to(tmp_path):
    code, report = run(tmp_path, "{} > job.out 2>&1")
    said = (tmp_path / "job.out").read_text()
    assert (code, codes(report)) == (1, ["ENV005"])  # the bare exit code of FAIL001 adds nothing to it
    assert report["log"]["files"] == [str(tmp_path / "job.out")]
    place = f"line {said.splitlines().index(CAUSE) + 1} of {tmp_path / 'job.out'}"
    assert place in verdict(report) and "No rank reported" in verdict(report)
    evidence = report["findings"][0]["evidence"]
    assert any(item.get("text") == CAUSE for item in evidence), evidence
    assert said.startswith(f'starting\nTraceback (most recent call last):\n  File "{tmp_path}/main.py"')


def test_only_what_the_command_added_counts_and_lines_are_those_of_the_file(tmp_path):
    (tmp_path / "job.out").write_text("RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB\nold\n")
    _, report = run(tmp_path, "{} >> job.out 2>&1")
    lines = (tmp_path / "job.out").read_text().splitlines()
    assert codes(report) == ["ENV005"]
    assert f"line {lines.index(CAUSE) + 1} of" in verdict(report)
    assert report["log"]["lines"] < len(lines)


# Output that nobody keeps


def test_a_death_before_torch_on_a_terminal_is_explained_and_shown_as_without_us(tmp_path):
    (tmp_path / "main.py").write_text(FAILS)
    alone = typed(tmp_path, f"{PYTHON} main.py")
    words = f"{PYTHON} -m gpudoctor run --quiet --recording rec --format json --output report.json"
    assert typed(tmp_path, f"{words} -- {PYTHON} main.py").startswith(alone)
    report = json.loads((tmp_path / "report.json").read_text())
    assert codes(report) == ["ENV005"]
    assert "No rank reported" in verdict(report) and CAUSE in json.dumps(report["findings"])
    kept = list((tmp_path / "rec").glob("early-*.txt"))
    assert len(kept) == 1 and kept[0].stat().st_mode & 0o777 == 0o600
    assert kept[0].read_text().splitlines()[0] == "Traceback (most recent call last):"


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("import os\nraise RuntimeError(os.environ.get('RANK', 'password=hunter2hunter2'))\n", ["FAIL001"]),
        ("def broken(:\n", ["FAIL001"]),
        (
            "import subprocess, sys\nsubprocess.run([sys.executable, '-c', 'import nobodys_package'])\n"
            "raise RuntimeError('no data of that name')\n",
            ["FAIL001"],
        ),
    ],
)
def test_what_ended_the_command_itself_counts(tmp_path, script, expected):
    code, report = run(tmp_path, "{} 2>&1 | cat > piped.txt", script)
    assert (code, codes(report)[:1]) == (1, expected)
    assert "nobodys_package" not in json.dumps(report["findings"])
    assert not any("hunter2" in path.read_text() for path in (tmp_path / "rec").glob("early-*.txt"))


def typed(folder: Path, line: str) -> bytes:
    """What a terminal shows of a command line."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        ["bash", "-c", line], cwd=folder, stdin=theirs, stdout=theirs, stderr=theirs, close_fds=True
    ) as process:
        os.close(theirs)
        shown = b""
        try:
            while piece := os.read(ours, 4096):
                shown += piece
        except OSError:
            pass  # the other side has closed it
        process.wait(timeout=120)
    os.close(ours)
    return shown


def test_the_output_of_a_command_that_ends_well_is_not_read(tmp_path):
    code, report = run(tmp_path, "{} > job.out 2>&1", "print('ValueError: handled')\n")
    assert (code, codes(report), report.get("log")) == (0, [], None)
    assert "No rank reported" in verdict(report) and "job.out" not in verdict(report)
