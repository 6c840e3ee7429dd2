"""Programs that save, append, rename, delete and resume leave the user's files as they were, at every level."""

import json
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from forks import Request, zygote
from probed import environment
from trees import fingerprint

from gpudoctor.trial import protection
from gpudoctor.trial.bounded_run import in_copy
from gpudoctor.trial.protection import Level, NoProtectionError, RunProtection
from gpudoctor.trial.scratch import remove_scratch, scratch_folder
from gpudoctor.trial.trial_runner import Arm, TrialRunner

PROGRAM = """
import io, json, os, pathlib, shutil, sqlite3, subprocess, sys, tempfile
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
os.makedirs("old/new")
assert os.listdir("old") == ["new"] and not os.path.exists("old/deep")
os.rename("keep.txt", "kept.txt")
assert pathlib.Path("kept.txt").read_text() == "keep" and not os.path.exists("keep.txt")
os.rename("moved", "there")
assert sorted(path.name for path in pathlib.Path("there").rglob("*")) == ["in", "x.txt"]
assert not os.path.isdir("moved")
handle = os.open("low.bin", os.O_WRONLY | os.O_CREAT, 0o600)
os.write(handle, b"low"); os.close(handle)
assert io.open("low.bin", "rb").read() == b"low"
assert sorted(entry.name for entry in os.scandir("runs")) == ["one"]
shutil.copy("log.csv", "runs/copy.csv")
os.chmod("log.csv", 0o600)
os.chmod("mode.txt", 0o600); os.utime("mode.txt", (1, 1)); os.utime(".", (1, 1))
assert os.stat("mode.txt").st_mode & 0o777 == 0o600 and os.stat("mode.txt").st_mtime == 1
os.truncate("cut.txt", 1)
assert pathlib.Path("cut.txt").read_text() == "c"
os.symlink("runs/one", "latest")
assert open("latest/b.txt").read() == "a" and os.readlink("latest") == "runs/one"
os.remove("latest"); os.symlink("runs", "latest")
assert sorted(os.listdir("latest")) == ["copy.csv", "one"]
AWAY = os.environ["LEVEL"] == "overlay"
try:
    with open("through/linked.txt", "a") as stream:
        stream.write("more")
    assert open(os.environ["AWAY"] + "/linked.txt").read() == "linkedmore"
except OSError:
    assert not AWAY
base = sqlite3.connect("runs.db")
base.execute("insert into steps values (2)"); base.commit()
assert base.execute("select count(*) from steps").fetchone() == (2,)
base.close()
here = os.getcwd()
os.mkdir("hydra"); os.chdir("hydra")
assert os.getcwd() == here + "/hydra"
open("inside.txt", "w").write("i")
assert open("../log.csv").read() == "old\\nnew\\n" and os.path.abspath("x") == here + "/hydra/x"
child = "print(open('inside.txt').read(), open('../log.csv').read().split(), open('../kept.txt').read())"
assert subprocess.run([sys.executable, "-c", child], capture_output=True, text=True).stdout == "i ['old', 'new'] keep\\n"
os.chdir("..")
with tempfile.TemporaryDirectory() as folder:
    open(folder + "/x", "w").write("x")
    assert os.listdir(folder) == ["x"]
for wrong, how in (("runs", FileExistsError), ("missing/folder", FileNotFoundError)):
    try:
        os.mkdir(wrong)
    except how:
        continue
    raise SystemExit(f"{wrong}: no error")
state = {"step": 0}
if os.path.exists("last.json"):
    state = json.load(open("last.json"))
state["step"] += 1
json.dump(state, open("last.json.tmp", "w"))
os.replace("last.json.tmp", "last.json")
if AWAY:
    open(os.path.join(os.environ["AWAY"], "else.txt"), "w").write("x")
try:
    open("missing/folder.txt", "w")
except FileNotFoundError:
    print("done", state["step"])
"""


@pytest.fixture
def tmp_path():
    """On a disk: an overlay covers no other file system than those of the project."""
    with TemporaryDirectory(prefix="on-disk-", dir="/var/tmp") as folder:
        yield Path(folder)


@pytest.fixture
def tree(tmp_path: Path, monkeypatch) -> Path:
    folder = tmp_path / "project"
    (folder / "old" / "deep").mkdir(parents=True)
    (folder / "old" / "deep" / "x.txt").write_text("x")
    (folder / "moved" / "in").mkdir(parents=True)
    (folder / "moved" / "in" / "x.txt").write_text("x")
    for name, text in (("log.csv", "old\n"), ("note.txt", "note"), ("keep.txt", "keep"), ("mode.txt", "mode"),
                       ("cut.txt", "cut"), ("last.json", '{"step": 7}'), ("run.py", PROGRAM)):  # fmt: skip
        (folder / name).write_text(text)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "linked.txt").write_text("linked")
    (folder / "through").symlink_to(tmp_path / "elsewhere")
    with __import__("sqlite3").connect(folder / "runs.db") as base:
        base.execute("create table steps (step int)")
        base.execute("insert into steps values (1)")
    base.close()
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def scratch():
    folder = scratch_folder()
    yield folder
    remove_scratch(folder)
    assert not folder.exists()


def guard_of(level: Level, scratch: Path) -> RunProtection:
    try:
        return RunProtection(scratch, level=level)
    except NoProtectionError:
        pytest.skip(f"no {level.value} here")


def run_guarded(
    guard: RunProtection, tree: Path, scratch: Path, *words: str, name: str = "recording", script: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """The words, or run.py; `script` is one that a forked process runs, which has torch."""
    recording = scratch / name
    recording.mkdir()
    with guard.protect(recording) as protection:
        table = json.dumps(dict(protection.overrides))
        variables = environment(recording, GPUDOCTOR_OVERRIDES=table, AWAY=str(tree.parent / "elsewhere"))
        variables |= {"LEVEL": guard.level.value, **protection.environment}
        copied = protection.copied
        if script is not None:
            assert protection.prefix[1:4] == ("-I", "-S", "-c")
            return zygote("zygote.py").run(
                Request(
                    words=[str(script)], folder=Path(copied[0] if copied else tree), environment=variables, said=recording, limit=60,
                    door=protection.prefix[5],
                )
            )  # fmt: skip
        return subprocess.run(
            [*protection.prefix, *(words or (sys.executable, "run.py"))], cwd=copied[0] if copied else tree,
            env=variables, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip


@pytest.mark.parametrize("level", Level)
def test_a_tree_is_the_same_before_and_after(tree, scratch, level):
    guard = guard_of(level, scratch)
    before = fingerprint(tree.parent)
    for name in ("first", "second"):  # the second begins where the first did, not where it ended
        done = run_guarded(guard, tree, scratch, name=name)
        assert (done.returncode, done.stdout) == (0, "done 8\n"), done.stderr
    assert fingerprint(tree.parent) == before
    listed = {os.path.relpath(path, tree) for path in guard.kept_out}
    away = {"../elsewhere/else.txt"} if level is Level.OVERLAY else set()
    assert {"log.csv", "runs/one/b.txt", "kept.txt", "keep.txt", "note.txt", "runs.db"} | away <= listed
    assert not any("gpudoctor" in path for path in listed)


@pytest.mark.parametrize("level", Level)
def test_what_is_not_python_changes_nothing_either(tree, scratch, level):
    guard = guard_of(level, scratch)
    before = fingerprint(tree.parent)
    done = run_guarded(
        guard,
        tree,
        scratch,
        "bash",
        "-c",
        f"echo x > new; rm note.txt; ls new; cd {tree}; rm keep.txt; echo > /dev/null",
    )
    assert fingerprint(tree.parent) == before
    overlaid = level is Level.OVERLAY
    assert done.stdout == "new\n" and bool(done.stderr) is not overlaid


def test_a_copy_has_its_own_links_and_leaves_environments_where_they_are(tree, scratch, monkeypatch):
    (tree / "inner").symlink_to(tree / "old")
    (tree / "venv").mkdir()
    (tree / "venv" / "pyvenv.cfg").touch()
    (tree / "data.bin").write_bytes(bytes(2000))
    monkeypatch.setattr(protection, "_LARGE", 1000)
    copy = scratch / "copy"
    protection.copy_project(str(tree), str(copy), str(scratch))
    assert os.readlink(copy / "inner") == str(copy / "old") and os.readlink(copy / "through") == str(
        tree.parent / "elsewhere"
    )
    assert os.readlink(copy / "venv") == str(tree / "venv") and os.readlink(copy / "data.bin") == str(tree / "data.bin")
    assert (copy / "old" / "deep" / "x.txt").read_text() == "x"
    assert in_copy(f"--config={tree}/ds.json", (str(copy), str(tree))) == f"--config={copy}/ds.json"
    assert in_copy("--config=ds.json", (str(copy), str(tree))) == "--config=ds.json"


def test_nothing_runs_where_nothing_protects(tree, scratch, monkeypatch):
    monkeypatch.setattr(protection, "_FILES", 3)
    with pytest.raises(NoProtectionError, match=f"each trial would copy {tree}, which has more than 3 files"):
        RunProtection(scratch, level=Level.COPY)
    monkeypatch.setattr(RunProtection, "_tried", lambda *_: False)
    with pytest.raises(NoProtectionError, match="allow user namespaces") as refused:
        RunProtection(scratch)
    assert refused.value.exit_code == 2


@pytest.mark.parametrize("level", Level)
def test_a_run_edits_its_own_files_behind_the_door(tree, scratch, level):
    guard = guard_of(level, scratch)
    before = fingerprint(tree.parent)
    runner = TrialRunner((sys.executable, "edited.py"), scratch, guard.protect)
    texts = {str(tree / "edited.py"): "print(open('ds.json').read())", str(tree / "ds.json"): "{2}"}
    run = runner.look(Arm(name="edit", texts=texts), steps=None, seconds=60)
    assert run.finished.exit_code == 0 and run.finished.last_words(1).endswith("{2}")
    assert fingerprint(tree.parent) == before and not guard.kept_out


def test_the_recording_is_written_through(tree, scratch):
    guard = guard_of(Level.OVERLAY, scratch)
    chosen = tree / "recording"
    chosen.mkdir()
    with guard.protect(chosen) as protection:
        words = [*protection.prefix, "touch", str(chosen / "seen"), str(tree / "unseen")]
        assert subprocess.run(words, cwd=tree, check=False).returncode == 0
    assert (chosen / "seen").exists() and not (tree / "unseen").exists()


def test_runs_share_what_they_put_into_caches_and_none_of_it_stays(tree, scratch, monkeypatch):
    home = tree.parent / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    for name in ("XDG_CACHE_HOME", "HF_HOME", "HF_HUB_CACHE"):
        monkeypatch.delenv(name, raising=False)
    for level in Level:
        guard = guard_of(level, scratch)
        text = """
import os
folder = os.environ.get("HF_HUB_CACHE") or os.path.expanduser("~/.cache/huggingface/hub")
os.makedirs(folder, exist_ok=True)
print(os.path.exists(folder + "/model"))
open(folder + "/model", "w").write("downloaded")
"""
        said = [
            run_guarded(guard, tree, scratch, sys.executable, "-c", text, name=f"{level.value}-{number}").stdout
            for number in range(2)
        ]
        assert said == ["False\n", "True\n"]
    assert not list(home.iterdir())
