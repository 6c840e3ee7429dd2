"""`gpudoctor verify` as a user calls it, on commands that save, hang, die and are interrupted: files stay as they
were, nothing goes on running, nothing is left in the scratch place."""

import os
import shlex
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import pytest
from command import begin
from forks import Begun
from trees import fingerprint

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
_PATIENCE = 300.0
"""Seconds that a busy machine may take; nothing waits so long on one that is not."""
_NAMED = 15
"""Bytes of a process's name that the kernel keeps."""

SAVES = """
import json, os, shutil, sys
state = {"step": 0}
if os.path.exists("last.json"):
    state = json.load(open("last.json"))
for step in range(3):
    state["step"] += 1
    with open("log.csv", "a") as log:
        log.write(f"{state['step']}\\n")
    json.dump(state, open("last.json.tmp", "w"))
    os.replace("last.json.tmp", "last.json")
    os.makedirs(f"ckpt-{step}", exist_ok=True)
    open(f"ckpt-{step}/model.bin", "wb").write(b"x" * 1000)
    if step:
        shutil.rmtree(f"ckpt-{step - 1}")
os.remove("note.txt")
shutil.rmtree("old")
print("resumed to", state["step"], len(open("log.csv").read().split()), flush=True)
"""
STARTS = """
import json, os, subprocess, sys, time
print(json.loads(os.environ["GPUDOCTOR_OVERRIDES"])["offline.scratch"], flush=True)
open("log.csv", "a").write("begun")
os.remove("note.txt")
subprocess.Popen(["sleep", "1000"], start_new_session=True)
"""
HANGS = STARTS + "print('ready', flush=True)\ntime.sleep(1000)\n"
DIES = STARTS + (
    "import resource\nresource.setrlimit(resource.RLIMIT_AS, (1 << 29, 1 << 29))\nhold = bytearray(1 << 30)\n"
)
KILLED = STARTS + "os.kill(os.getpid(), 9)\n"
TRAINS = (
    STARTS
    + """
import torch
torch.set_num_threads(1)
model = torch.nn.Linear(8, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(60):
    optimizer.zero_grad()
    model(torch.randn(4, 8)).sum().backward()
    optimizer.step()
    torch.save(model.state_dict(), "model.pt")
    time.sleep(0.005)
print("ready", flush=True)
"""
)


def shown(pid: int) -> tuple[bytes, str]:
    """The command line of a process and where it waits."""
    with suppress(OSError):
        place = Path(f"/proc/{pid}")
        return (place / "cmdline").read_bytes(), (place / "wchan").read_text()
    return b"gone", ""


@dataclass
class Job:
    """A folder with a user's files, and who was started in it."""

    folder: Path
    before: dict[str, tuple[object, ...]]
    mark: str
    forked: list[Begun]

    def write(self, text: str, name: str = "run.py") -> None:
        """Add a script; what is there from now on is to stay."""
        (self.folder / name).write_text(text)
        self.before = fingerprint(self.folder)

    def start(self, *words: str, level: str = "overlay") -> subprocess.Popen[str]:
        """`gpudoctor verify` on the script."""
        return subprocess.Popen(
            [sys.executable, "-m", "gpudoctor", *self._words(words)],
            cwd=self.folder, env={**os.environ, **self._variables(level)}, start_new_session=True, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def fork(self, *words: str, level: str = "overlay", trainings: int = 0) -> Begun:
        """The same in a forked process that has gpudoctor loaded; so many trainings are forked from one with torch."""
        self.forked.append(
            begin(
                *self._words(words), cwd=self.folder, said=self.folder.parent / "said", name=self.mark[:_NAMED],
                timeout=_PATIENCE, trainings=trainings, **self._variables(level),
            )
        )  # fmt: skip
        return self.forked[-1]

    def _words(self, more: Sequence[str]) -> tuple[str, ...]:
        return ("verify", "--select", "SYNC", "--quiet", *more, "--", sys.executable, "run.py")

    def _variables(self, level: str) -> dict[str, str]:
        state = self.folder.parent / "state"
        return {"MARK": self.mark, "GPUDOCTOR_PROTECTION": level, "XDG_STATE_HOME": str(state)}

    def left(self) -> list[int]:
        """Processes that descend from ours: they have our variable or, forked, our name; a dead one is none."""
        found = []
        for entry in Path("/proc").iterdir():
            try:
                if entry.name.isdecimal() and (
                    f"MARK={self.mark}".encode() in (entry / "environ").read_bytes()
                    or (
                        (f"({self.mark[:_NAMED]})" in (stat := (entry / "stat").read_text()))
                        and stat.rsplit(")", 1)[1].split()[0] != "Z"
                    )
                ):
                    found.append(int(entry.name))
            except OSError:
                continue
        return found

    def nothing_is_left(self, scratch: Path | None) -> None:
        """Files as before; no process, no scratch, a moment later."""
        until(lambda: not self.left() and (scratch is None or not scratch.exists()))
        assert self.left() == [], [shown(pid) for pid in self.left()]
        assert scratch is None or not scratch.exists()
        assert fingerprint(self.folder) == self.before


def until(true: Callable[[], bool]) -> None:
    """Wait for it, not for ever."""
    deadline = time.monotonic() + _PATIENCE
    while not true() and time.monotonic() < deadline:
        time.sleep(0.02)


@pytest.fixture
def job(tmp_path: Path):
    folder = tmp_path / "project"
    (folder / "old").mkdir(parents=True)
    for name, text in (("log.csv", "0\n"), ("note.txt", "note"), ("last.json", '{"step": 7}'), ("old/x", "x")):
        (folder / name).write_text(text)
    made = Job(folder=folder, before=fingerprint(folder), mark=uuid.uuid4().hex, forked=[])
    yield made
    for pid in made.left():
        os.kill(pid, signal.SIGKILL)
    for process in made.forked:
        process.wait()


def scratch_of(process: subprocess.Popen[str] | Begun) -> Path:
    """The scratch place, from what the script says first."""
    assert process.stdout is not None
    said = process.stdout.readline().strip()
    assert said, process.communicate()
    return place(said)


def place(said: str) -> Path:
    """The scratch place that a folder is in."""
    return next(path for path in (Path(said), *Path(said).parents) if path.name.startswith("gpudoctor-trial-"))


def ready(process: subprocess.Popen[str] | Begun) -> None:
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"


@pytest.mark.slow
@pytest.mark.parametrize("level", ["overlay", "copy"])
def test_what_a_script_saves_deletes_and_resumes_from_stays(job, level):
    job.write(SAVES)
    begun = job.start if level == "overlay" else job.fork  # an interpreter of its own, once
    said, errors = begun(level=level).communicate(timeout=_PATIENCE)
    assert said == "resumed to 10 4\n", errors
    job.nothing_is_left(None)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGKILL, -9)]
)
def test_a_signal_in_the_first_run_leaves_nothing(job, number, code):
    job.write(HANGS)
    process = job.start() if number is signal.SIGKILL else job.fork()
    scratch = scratch_of(process)
    ready(process)
    if number is signal.SIGINT:
        os.killpg(process.pid, number)  # as a terminal does
    else:
        os.kill(process.pid, number)
    assert process.wait(_PATIENCE) == code
    job.nothing_is_left(scratch)


def test_the_end_of_the_time_leaves_nothing(job):
    job.write(HANGS)
    process = job.fork("--budget", "2s", "--steps", "20")
    said, errors = process.communicate(timeout=_PATIENCE)
    assert process.returncode == 0, errors
    job.nothing_is_left(place(said.partition("\n")[0]) if said else None)


@pytest.mark.parametrize(("text", "code"), [(DIES, 1), (KILLED, 137)])
def test_a_command_that_dies_of_memory_leaves_nothing(job, text, code):
    job.write(text)
    process = job.fork()
    scratch = scratch_of(process)
    assert process.wait(_PATIENCE) == code
    job.nothing_is_left(scratch)


@pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed")
@pytest.mark.slow
def test_ctrl_c_in_a_trial_leaves_nothing(job):
    job.write(TRAINS)
    job.write(HANGS, "other.py")
    process = job.fork("--against", f"{shlex.quote(sys.executable)} other.py", trainings=8)
    scratch = scratch_of(process)
    ready(process)
    until(lambda: (scratch / "lap-2").exists())
    assert process.pid in job.left()
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait(_PATIENCE) == 130
    job.nothing_is_left(scratch)
