"""Kills under `run`: by every signal, to everyone, at every moment; then runs on a disk that is full."""

import contextlib
import io
import os
import random
import re
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from attack.case import Attempt

GROUP = "kills under run"
AT_ONCE = 3
"""Runs at the same time: the machine is loaded, as a training's is."""
TIMEOUT = 40.0
OURS = re.compile(r'File "[^"]*gpudoctor/(?!probe/)[\w/]+\.py", line')
"""A frame of ours in a traceback; those of the probe in a program's own are another group's."""
SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP", "SIGKILL", "SIGSEGV", "SIGABRT")
CAUGHT = ("SIGINT", "SIGTERM", "SIGHUP")
"""Those that gpudoctor passes on; of the others it dies itself."""
OWN_CODE = 7

PLAIN = """
import os, sys, time
log = open("log.txt", "w")
print("ready", os.getpid(), flush=True)
for step in range(int(sys.argv[1])):
    log.write(f"step {step}\\n")
    log.flush()
    time.sleep(0.005)
sys.exit(7)
"""
TORCH = """
import os, sys, time
import torch
net = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
log = open("log.txt", "w")
print("ready", os.getpid(), flush=True)
for step in range(int(sys.argv[1])):
    optimizer.zero_grad()
    net(torch.randn(8, 4)).sum().backward()
    optimizer.step()
    log.write(f"step {step}\\n")
    log.flush()
    time.sleep(0.002)
sys.exit(7)
"""
LONG, SHORT = "100000", "20"


@dataclass(kw_only=True)
class Case:
    """One run and its kill."""

    name: str
    folder: Path
    target: str
    """`program`, `doctor` or `group`."""
    signal: str
    """"" for a run that is not killed."""
    moment: str
    """`start`, `training` or `report`."""
    torch: bool = False
    room: int | None = None
    """Bytes that a file may have."""
    pause: float = 0.0
    code: int | None = None
    out: str = ""
    err: str = ""
    words: list[str] = field(default_factory=list)
    """What went wrong on the way."""

    @property
    def recording(self) -> Path:
        """Where it is recorded."""
        return self.folder / "rec"

    @property
    def work(self) -> Path:
        """The program's working folder."""
        return self.folder / "work"


def cases(seed: int, scratch: Path) -> list[Case]:
    """A hundred kills, and runs on a disk that is full."""
    dice = random.Random(seed)
    plans = [
        (target, name, moment)
        for target in ("program", "doctor", "group")
        for name in SIGNALS
        for moment in ("start", "training", "training", "training", "training")
    ]  # 90
    plans += [(target, name, "report") for target in ("doctor", "group") for name in (*CAUGHT, "SIGKILL", "SIGABRT")]
    made = [
        Case(
            name=f"{name} to the {target}, {moment}, {number}",
            folder=scratch / f"kill-{number}",
            target=target,
            signal=name,
            moment=moment,
            torch=moment == "training" and number % 5 == 1,
            pause=dice.uniform(0.0, 0.3 if moment == "start" else 0.6),
        )
        for number, (target, name, moment) in enumerate(plans)
    ]
    made += [
        Case(
            name=f"no file beyond {room} bytes",
            folder=scratch / f"full-{room}-{torch}",
            target="program",
            signal="",
            moment="",
            torch=torch,
            room=room,
        )
        for room in (100, 2_000, 20_000)
        for torch in (False, True)
    ]
    dice.shuffle(made)
    return made


def attempts(seed: int, scratch: Path) -> Iterator[Attempt]:
    """Kill, then look at what is left."""
    made = cases(seed, scratch)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for case in pool.map(perform, made):
            yield Attempt(GROUP, case.name, judge(case))


def perform(case: Case) -> Case:
    """Run and kill."""
    case.work.mkdir(parents=True)
    (case.work / "train.py").write_text(TORCH if case.torch else PLAIN)
    steps = SHORT if case.moment in ("report", "") else LONG
    words = ["run", "--recording", str(case.recording), "--", sys.executable, "train.py", steps]
    process = start(words, case.work, case.room)
    program = 0
    if case.moment == "start":
        wait_for((case.recording / "recording.json").exists)
        time.sleep(case.pause)
        program = child_of(process.pid)
    elif case.moment:
        line = process.stdout.readline().split() if process.stdout else []
        program = int(line[1]) if len(line) == 2 else 0
        if case.moment == "report":
            wait_for((case.recording / "end.json").exists)
            time.sleep(case.pause)
        else:
            time.sleep(case.pause)
    if case.signal:
        send(case, process.pid, program)
    finish(case, process)
    return case


def start(
    words: Sequence[str], folder: Path, room: int | None = None, err: IO[str] | None = None
) -> "subprocess.Popen[str]":
    """gpudoctor in a session of its own; its standard error on a pipe, or in a file."""

    def prepare() -> None:
        for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)  # what the one who started us ignores is none of theirs
        if room is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    return subprocess.Popen(
        [sys.executable, "-m", "gpudoctor", *words],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=err or subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
        preexec_fn=prepare,
    )


def send(case: Case, doctor: int, program: int) -> None:
    """The signal."""
    number = getattr(signal, case.signal)
    with contextlib.suppress(ProcessLookupError):
        if case.target == "group":
            os.killpg(doctor, number)
        elif case.target == "doctor":
            os.kill(doctor, number)
        elif program:
            os.kill(program, number)
        else:
            case.words.append("the program was not found")


def finish(case: Case, process: "subprocess.Popen[str]") -> None:
    """Wait for the end; the time is limited."""
    try:
        case.out, case.err = process.communicate(timeout=TIMEOUT)
    except subprocess.TimeoutExpired:
        case.words.append(f"still there {TIMEOUT:g} s after the signal")
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        case.out, case.err = process.communicate()
    case.code = process.returncode
    left = wait_until_gone(process.pid, case.folder)
    if left:
        case.words.append(f"left behind: {left}")


def judge(case: Case) -> str | None:
    """Why it broke; None where all is as it should be."""
    problems = [*case.words]
    problems += [f"exit code {case.code}, expected {want}" for want in [codes(case)] if case.code not in want]
    if OURS.search(case.err):
        problems.append(f"a traceback of ours: {case.err[-400:]}")
    problems += files_touched(case.work, {"train.py", "log.txt"})
    problems += log_broken(case.work / "log.txt", cut=case.room is not None)
    if case.room is None:
        problems += report_of(case)
    return "; ".join(problems) or None


def codes(case: Case) -> set[int]:
    """Exit codes that are right."""
    if not case.signal:
        return {0, 1, OWN_CODE} if case.room is not None and case.room < 300 else {OWN_CODE}
    number = int(getattr(signal, case.signal))
    passed_on = case.signal in CAUGHT or case.target == "program"
    if case.moment == "report":
        # What ends the report leaves the command's own code; it may have been too late for anything.
        return {OWN_CODE} if passed_on else {OWN_CODE, -number}
    return {128 + number} if passed_on else {-number}


def report_of(case: Case) -> Iterator[str]:
    """What is wrong with the recording and with its report."""
    from gpudoctor.cli import main
    from gpudoctor.vitals.recording import read_recording

    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(["report", str(case.recording), "--fail-on", "never"])
    text = " ".join(out.getvalue().split())
    if code not in (0, 3) or not text:
        yield f"the report ends with {code}: {err.getvalue()[-300:]}"
        return
    recording = read_recording(str(case.recording))
    doctor_died = case.code is not None and case.code < 0
    if doctor_died and case.moment != "report":
        if recording.end is not None:
            yield "an end was written by a recorder that was killed"
    elif recording.end is None:
        yield "no end was written"
    elif case.moment != "report" and recording.end.exit_code != case.code:
        yield f"end.json says {recording.end.exit_code}, the exit code was {case.code}"
    elif str(recording.end.exit_code) not in text and str(recording.end.signal) not in text:
        yield f"the report does not say how it ended: {text[:300]}"
    if case.torch and case.pause > 0.4 and not any(len(process.steps) for process in recording.ranks):
        yield "no step was recorded"


def files_touched(folder: Path, known: set[str]) -> Iterator[str]:
    """Files that are none of the program's."""
    found = {path.name for path in folder.iterdir()} - known - {"__pycache__"}
    if found:
        yield f"files that the program did not write: {sorted(found)}"


def log_broken(path: Path, *, cut: bool) -> Iterator[str]:
    """Whether the program's own file is not what it would be without us; a full disk cuts it in a line."""
    lines = path.read_text().splitlines(keepends=True) if path.exists() else []
    if cut and lines and not lines[-1].endswith("\n"):
        lines.pop()
    if any(line != f"step {number}\n" for number, line in enumerate(lines)):
        yield "the program's file is broken"


def wait_for(condition: Callable[[], bool], seconds: float = TIMEOUT) -> None:
    """Until it is true; no longer than a while."""
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.005)


def child_of(doctor: int) -> int:
    """The program that gpudoctor has started; 0 where it has not yet."""
    deadline = time.monotonic() + TIMEOUT
    while time.monotonic() < deadline:
        for pid, parent, command in processes():
            if parent == doctor and "train.py" in command and "gpudoctor" not in command:
                return pid
        time.sleep(0.005)
    return 0


def processes() -> Iterator[tuple[int, int, str]]:
    """Every living process: pid, parent, command."""
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            fields = (path / "stat").read_text().rpartition(")")[2].split()
            if fields[0] not in "ZX":
                command = (path / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                yield int(path.name), int(fields[1]), command


def wait_until_gone(session: int, folder: Path) -> list[str]:
    """Commands of processes that are left of a run: of its session, or with its folder in their environment."""
    deadline = time.monotonic() + 3.0
    while True:
        left = []
        for pid, _, command in processes():
            with contextlib.suppress(OSError):
                mine = os.getsid(pid) == session
                if mine or str(folder).encode() in Path(f"/proc/{pid}/environ").read_bytes():
                    left.append(command[:100])
        if not left or time.monotonic() > deadline:
            return left
        time.sleep(0.05)
