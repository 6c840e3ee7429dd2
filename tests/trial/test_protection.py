"""Programs that save, append, rename and delete leave the user's files as they were."""

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from probed import environment

from gpudoctor.trial.protection import OVERLAY, Guard, remove_scratch, scratch_folder

PROGRAM = """
import io, os, pathlib, shutil
assert open("log.csv").read() == "old\\n"
with open("log.csv", "a") as log:
    log.write("new\\n")
assert open("log.csv").read() == "old\\nnew\\n"
os.makedirs("runs/one")
pathlib.Path("runs/one/a.txt").write_text("a")
os.replace("runs/one/a.txt", "runs/one/b.txt")
assert os.listdir("runs/one") == ["b.txt"] and not os.path.exists("runs/one/a.txt")
os.remove("note.txt")
assert not os.path.exists("note.txt") and "note.txt" not in os.listdir(".")
shutil.rmtree("old")
assert not pathlib.Path("old").exists()
os.rename("keep.txt", "kept.txt")
assert pathlib.Path("kept.txt").read_text() == "keep" and not os.path.exists("keep.txt")
handle = os.open("low.bin", os.O_WRONLY | os.O_CREAT, 0o600)
os.write(handle, b"low"); os.close(handle)
assert io.open("low.bin", "rb").read() == b"low"
assert sorted(entry.name for entry in os.scandir("runs")) == ["one"]
shutil.copy("log.csv", "runs/copy.csv")
os.chmod("log.csv", 0o600)
open(os.path.join(os.environ["AWAY"], "else.txt"), "w").write("x")
try:
    open("missing/folder.txt", "w")
except FileNotFoundError:
    print("done")
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / "old" / "deep").mkdir(parents=True)
    (folder / "old" / "deep" / "x.txt").write_text("x")
    (folder / "log.csv").write_text("old\n")
    (folder / "note.txt").write_text("note")
    (folder / "keep.txt").write_text("keep")
    (folder / "run.py").write_text(PROGRAM)
    (tmp_path / "elsewhere").mkdir()
    return folder


@pytest.fixture
def scratch():
    folder = scratch_folder()
    yield folder
    remove_scratch(folder)
    assert not folder.exists()


def fingerprint(folder: Path) -> dict[str, tuple[str, int]]:
    found = {}
    for path in sorted(folder.rglob("*")):
        text = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "folder"
        found[str(path.relative_to(folder))] = text, path.stat().st_mode
    return found


def run_guarded(guard: Guard, tree: Path, scratch: Path) -> subprocess.CompletedProcess[str]:
    recording = scratch / "recording"
    recording.mkdir()
    with guard.protect(recording) as protection:
        table = json.dumps(dict(protection.overrides))
        variables = environment(
            recording, GPUDOCTOR_OVERRIDES=table, AWAY=str(tree.parent / "elsewhere"), **protection.environment
        )
        return subprocess.run(
            [*protection.prefix, sys.executable, "run.py"], cwd=tree, env=variables, capture_output=True, text=True,
            timeout=60, check=False,
        )  # fmt: skip


@pytest.mark.parametrize("overlay", [True, False])
def test_a_tree_is_the_same_before_and_after(tree, scratch, overlay, monkeypatch):
    monkeypatch.chdir(tree)
    guard = Guard(scratch)
    if overlay and guard.words != OVERLAY:
        pytest.skip("no overlay here")
    guard._overlay = overlay
    before = fingerprint(tree.parent)
    done = run_guarded(guard, tree, scratch)
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
    assert fingerprint(tree.parent) == before
    listed = {os.path.relpath(path, tree) for path in guard.kept_out}
    assert {"log.csv", "runs/one/b.txt", "kept.txt", "../elsewhere/else.txt"} <= listed


def test_the_recording_is_written_through(tree, scratch, monkeypatch):
    monkeypatch.chdir(tree)
    guard = Guard(scratch)
    if guard.words != OVERLAY:
        pytest.skip("no overlay here")
    chosen = tree / "recording"
    chosen.mkdir()
    with guard.protect(chosen) as protection:
        words = [*protection.prefix, "touch", str(chosen / "seen"), str(tree / "unseen")]
        assert subprocess.run(words, cwd=tree, check=False).returncode == 0
    assert (chosen / "seen").exists() and not (tree / "unseen").exists()
