"""The snapshots that guard a rewrite: a change of a text, of a price or of a remedy is seen, a move is not."""

import subprocess
import sys
from pathlib import Path

import pytest

HELPER = Path(__file__).parent / "helpers" / "golden.py"
TESTS = """
from gpudoctor.model import Code, Confidence, Finding, LeakDetail, Measurement, Severity


def made(message, **more):
    proof = (Measurement(name="waits", value=3, unit="{{count}}"),)
    return Finding(code=Code("XX001"), name="x", severity=Severity.NOTE, confidence=Confidence.CONFIRMED,
                   message=message, evidence=proof, **more)


def test_one(tmp_path):
    made("{message}", detail=LeakDetail(target="{inner}"))


def test_folder(tmp_path):
    made(f"{{tmp_path}}/train.py waits")


def test_command(capsys):
    from gpudoctor.cli import main

    main(["explain", "DATA001"])
"""


@pytest.fixture
def snapshot(tmp_path):
    """Make a snapshot of the tests above, with one message and one detail; returns its folder."""

    def make(name: str, message: str, inner: int) -> Path:
        folder = tmp_path / name
        (tmp_path / "test_it.py").write_text(TESTS.format(message=message, inner=inner))
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "golden", "--golden", str(folder), "-p", "no:cacheprovider",
             "-c", str(HELPER.parents[2] / "pyproject.toml"), "--rootdir", str(tmp_path), "test_it.py"],
            cwd=tmp_path, env={"PYTHONPATH": str(HELPER.parent), "PATH": ""}, capture_output=True, text=True,
            check=False,
        )  # fmt: skip
        assert "passed" in done.stdout, done.stdout + done.stderr
        return folder

    return make


def compare(before: Path, now: Path, *more: str) -> subprocess.CompletedProcess[str]:
    """The comparison of two folders, as at a terminal."""
    words = [sys.executable, str(HELPER), str(before), str(now), *more]
    return subprocess.run(words, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_a_changed_message_is_seen_and_an_inner_detail_is_not(snapshot):
    before, moved, changed = (
        snapshot("a", "It waits.", 1),
        snapshot("b", "It waits.", 2),
        snapshot("c", "It idles.", 1),
    )
    assert "It waits." in "".join(path.read_text() for path in before.glob("*.txt"))
    assert "loader-bound" in "".join(path.read_text() for path in before.glob("*.txt"))
    assert (compare(before, moved).returncode, compare(before, moved).stdout) == (0, "")
    done = compare(before, changed)
    assert done.returncode == 1
    assert "test_one" in done.stdout and "It idles." in done.stdout and "test_folder" not in done.stdout


@pytest.mark.slow
def test_what_differs_from_run_to_run_is_not_compared(snapshot):
    before, again, now = snapshot("a", "3.1 ms", 1), snapshot("b", "3.2 ms", 1), snapshot("c", "3.3 ms", 1)
    done = compare(before, now, "--again", str(again))
    assert (done.returncode, done.stdout) == (0, "")
    assert "1 tests differ from run to run" in done.stderr


@pytest.mark.slow
def test_a_message_that_is_no_utf_8_is_compared_like_any_other(snapshot):
    """A file name of other bytes is in texts as lone surrogates; all that comes after it must be written too."""
    before, now = snapshot("before", "caf\\udce9.py waits", 1), snapshot("now", "caf\\udcea.py waits", 1)
    found = compare(before, now)
    assert found.returncode == 1
    assert "udce9" in found.stdout and "udcea" in found.stdout
