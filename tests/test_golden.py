"""The snapshots that guard a rewrite: a change of a text, of a price or of a remedy is seen, a move is not."""

import shutil
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


MADE = {
    "waits": ("It waits.", 1),
    "waits, another detail": ("It waits.", 2),
    "idles": ("It idles.", 1),
    "3.1 ms": ("3.1 ms", 1),
    "3.2 ms": ("3.2 ms", 1),
    "3.3 ms": ("3.3 ms", 1),
    "no utf-8": ("caf\\udce9.py waits", 1),
    "other bytes": ("caf\\udcea.py waits", 1),
}
"""The snapshots that the tests compare: the message and the inner detail of each."""


@pytest.fixture(scope="module")
def snapshot(tmp_path_factory):
    """The folder of each snapshot, by its name; the tests above run in one process, once for every snapshot."""
    root = tmp_path_factory.mktemp("snapshots")
    # Remedies that a module holds are made when it is loaded: by this file, which nothing compares.
    (root / "test_first.py").write_text(TESTS.format(message="first", inner=0))
    for number, (message, inner) in enumerate(MADE.values()):
        (root / f"test_it_{number}.py").write_text(TESTS.format(message=message, inner=inner))
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "golden", "--golden", str(root / "all"), "-p", "no:cacheprovider",
         "-c", str(HELPER.parents[2] / "pyproject.toml"), "--rootdir", str(root), str(root)],
        cwd=root, env={"PYTHONPATH": str(HELPER.parent), "PATH": ""}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert f"{3 * (1 + len(MADE))} passed" in done.stdout, done.stdout + done.stderr
    folders = {name: root / f"only {name}" for name in MADE}
    for number, folder in enumerate(folders.values()):
        folder.mkdir()
        shutil.move(root / "all" / f"test_it_{number}.txt", folder / "test_it.txt")
    return folders


def compare(before: Path, now: Path, *more: str) -> subprocess.CompletedProcess[str]:
    """The comparison of two folders, as at a terminal."""
    words = [sys.executable, str(HELPER), str(before), str(now), *more]
    return subprocess.run(words, capture_output=True, text=True, check=False)


def test_a_changed_message_is_seen_and_an_inner_detail_is_not(snapshot):
    before, moved, changed = snapshot["waits"], snapshot["waits, another detail"], snapshot["idles"]
    assert "It waits." in "".join(path.read_text() for path in before.glob("*.txt"))
    assert "loader-bound" in "".join(path.read_text() for path in before.glob("*.txt"))
    same = compare(before, moved)
    assert (same.returncode, same.stdout) == (0, "")
    done = compare(before, changed)
    assert done.returncode == 1
    assert "test_one" in done.stdout and "It idles." in done.stdout and "test_folder" not in done.stdout


def test_what_differs_from_run_to_run_is_not_compared(snapshot):
    before, again, now = snapshot["3.1 ms"], snapshot["3.2 ms"], snapshot["3.3 ms"]
    done = compare(before, now, "--again", str(again))
    assert (done.returncode, done.stdout) == (0, "")
    assert "1 tests differ from run to run" in done.stderr


def test_a_message_that_is_no_utf_8_is_compared_like_any_other(snapshot):
    """A file name of other bytes is in texts as lone surrogates; all that comes after it must be written too."""
    before, now = snapshot["no utf-8"], snapshot["other bytes"]
    found = compare(before, now)
    assert found.returncode == 1
    assert "udce9" in found.stdout and "udcea" in found.stdout
