"""What is said of the user's files after trials is what a comparison has shown."""

import os

import pytest

from gpudoctor.model.proof import TrialSummary
from gpudoctor.trial import unchanged
from gpudoctor.trial.unchanged import Unchanged
from gpudoctor.ui.console.trial_text import _kept_as_it_was


@pytest.fixture
def tree(tmp_path, monkeypatch):
    job = tmp_path / "job"
    (job / "runs" / "deep").mkdir(parents=True)
    for name in ("train.py", "log.txt", "runs/a.pt", "runs/deep/b.pt"):
        (job / name).write_text("old")
    os.symlink("log.txt", job / "latest")
    monkeypatch.chdir(job)
    return job


def rewrite_in_place(tree):
    before = (tree / "log.txt").stat()
    (tree / "log.txt").write_text("new")  # as long as it was, and with its old time
    os.utime(tree / "log.txt", ns=(before.st_atime_ns, before.st_mtime_ns))


NONE = {"step_seconds": None, "warm_up_steps": 0, "steps": 0}
CHANGES = {
    "another content": (rewrite_in_place, ["log.txt"]),
    "longer": (lambda tree: (tree / "runs/deep/b.pt").write_text("older"), ["runs/deep/b.pt"]),
    "new": (lambda tree: (tree / "runs/c.pt").write_text("x"), ["runs/c.pt"]),
    "a new folder": (lambda tree: (tree / "out").mkdir(), ["out"]),
    "gone": (lambda tree: (tree / "runs/a.pt").unlink(), ["runs/a.pt"]),
    "mode": (lambda tree: (tree / "train.py").chmod(0o755), ["train.py"]),
    "a link": (lambda tree: ((tree / "latest").unlink(), os.symlink("train.py", tree / "latest")), ["latest"]),
    "renamed": (lambda tree: (tree / "log.txt").rename(tree / "old.txt"), ["log.txt", "old.txt"]),
}


@pytest.mark.parametrize("name", CHANGES)
def test_every_change_is_seen(tree, name):
    change, expected = CHANGES[name]
    files = Unchanged(["python", "train.py"])
    change(tree)
    seen = files.look()
    assert [os.path.relpath(path, tree) for path in seen.changed] == expected
    assert "as they were" not in seen.words and os.path.basename(expected[0]) in seen.words


def test_what_is_as_it_was(tree):
    files = Unchanged(["python", "train.py"])
    assert files.look().words == f"all 5 files in {tree} are unchanged"


def test_what_was_changed_on_purpose_and_what_is_ours(tree):
    (tree / "rec").mkdir()
    files = Unchanged(["python", "train.py"], without=[str(tree / "rec")])
    (tree / "rec" / "rank-0-1.gdr").write_text("x")
    (tree / "train.py").write_text("better")
    assert files.look().changed == (str(tree / "train.py"),)
    assert not files.look(kept=["train.py"]).changed


def test_a_folder_too_large_says_how_much_was_compared(tree, monkeypatch):
    monkeypatch.setattr(unchanged, "FILES", 2)
    words = Unchanged(["python", "train.py"]).look().words
    assert words.endswith("the rest was not compared") and words.startswith("the first ")


def test_folders_of_files_that_the_command_names(tree, tmp_path):
    other = tmp_path / "configs"
    other.mkdir()
    (other / "ds.json").write_text("{}")
    files = Unchanged(["/usr/bin/python", "train.py", f"--config={other}/ds.json"])
    assert set(files.folders) == {str(tree), str(other)}


def test_words_go_no_further_than_what_was_compared():
    same = "all 3 files in /job are unchanged"
    held = TrialSummary(**NONE, protection="every run wrote to an overlay", compared=same)
    assert _kept_as_it_was(held) == f"none of your files was changed (every run wrote to an overlay; {same})"
    changed = TrialSummary(
        **NONE, protection="every run wrote to an overlay", changed=("/job/a",), compared="changed: a"
    )
    assert "none of your" not in _kept_as_it_was(changed)
