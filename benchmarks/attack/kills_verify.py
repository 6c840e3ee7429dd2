"""Kills under `verify`, at every level of protection: the user's files and the words about them."""

import contextlib
import hashlib
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from attack.case import Attempt
from attack.kills import CAUGHT, OURS, start, wait_for, wait_until_gone

GROUP, WORDS = "kills under verify", "words about what changed"
LEVELS = ("overlay", "copy")
TARGETS = ("doctor", "group", "program")
AT_ONCE = 3
TIMEOUT = 60.0
PROGRAM = """
import os, subprocess, sys, time
print("ready", os.getpid(), flush=True)
{outside}
for step in range({steps}):
    try:
        open("log.txt", "a").write("step\\n")
        open(f"checkpoint-{step % 3}.pt", "w").write("x" * 1000)
    except OSError:
        pass
    time.sleep(0.01)
{last}
"""
OUTSIDE = 'subprocess.run(["sh", "-c", "echo more >> shell.txt"], stderr=subprocess.DEVNULL)'
"""A write that no patch of Python's writers reaches."""


ENDINGS = {"ends": ("10", "", 0), "raises": ("10", "raise SystemExit(5)", 5), "time is up": ("100000", "", 0)}
"""Endings without a signal: steps, last line, exit code."""


@dataclass(kw_only=True)
class Case:
    """One trial and its kill; `signal` is the name of an ending where there is none."""

    level: str
    target: str
    signal: str
    outside: bool
    pause: float
    folder: Path

    @property
    def name(self) -> str:
        """For the table."""
        return f"{self.level}: {self.signal} to the {self.target}{', writes by a shell' if self.outside else ''}"


def cases(seed: int, scratch: Path) -> list[Case]:
    """Levels times targets times signals."""
    dice = random.Random(seed)
    plans = [
        (level, target, name)
        for level in LEVELS
        for target in TARGETS
        for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGKILL")
        if target != "program" or name in ("SIGTERM", "SIGKILL")
    ]
    plans += [(level, "program", name) for level in LEVELS for name in ENDINGS]
    return [
        Case(
            level=level,
            target=target,
            signal=name,
            outside=number % 2 == 0 or name in CAUGHT or name in ENDINGS,
            pause=dice.uniform(0.1, 0.8),
            folder=scratch / f"trial-{number}",
        )
        for number, (level, target, name) in enumerate(plans)
    ]


def attempts(seed: int, scratch: Path) -> Iterator[Attempt]:
    """Kill, then compare."""
    before = scratch_places()
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for both in pool.map(perform, cases(seed, scratch)):
            yield from both
    wait_for(lambda: scratch_places() <= before, 5.0)
    left = sorted(map(str, scratch_places() - before))
    yield Attempt(GROUP, "the scratch places of all of them", f"left: {left}" if left else None)


def tree(folder: Path) -> dict[str, tuple[object, ...]]:
    """Every file with its content, mode and time."""
    found: dict[str, tuple[object, ...]] = {}
    for path in sorted(folder.rglob("*")):
        status = path.lstat()
        text = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
        found[str(path.relative_to(folder))] = text, status.st_mode, status.st_mtime_ns, status.st_ino
    return found


def perform(case: Case) -> list[Attempt]:
    """One trial."""
    work = case.folder / "work"
    work.mkdir(parents=True)
    steps, last, _ = ENDINGS.get(case.signal, ("100000", "", 0))
    text = PROGRAM.replace("{outside}", OUTSIDE if case.outside else "")
    (work / "train.py").write_text(text.replace("{steps}", steps).replace("{last}", last))
    for name in ("log.txt", "shell.txt", "checkpoint-0.pt"):
        (work / name).write_text("old\n")
    before, mounts = tree(work), Path("/proc/mounts").read_text()
    words = [
        "verify",
        "--budget",
        "3s" if case.signal == "time is up" else "20s",
        "--recording",
        str(case.folder / "rec"),
        "--",
        sys.executable,
        "train.py",
    ]
    process = start_at(case, words, work)
    assert process.stdout is not None
    line = process.stdout.readline().split()
    time.sleep(case.pause)
    problems: list[str] = []
    number = int(getattr(signal, case.signal, 0))
    with contextlib.suppress(ProcessLookupError):
        if case.target == "group":
            os.killpg(process.pid, number)
        elif case.target == "doctor":
            os.kill(process.pid, number)
        elif len(line) == 2 and number:
            os.kill(int(line[1]), number)
    try:
        _, err = process.communicate(timeout=TIMEOUT)
    except subprocess.TimeoutExpired:
        problems.append(f"still there {TIMEOUT:g} s after the signal")
        os.killpg(process.pid, signal.SIGKILL)
        _, err = process.communicate()
    left = wait_until_gone(process.pid, case.folder)
    if left:
        problems.append(f"left behind: {left}")
    want = expected(case, number)
    if process.returncode not in want:
        problems.append(f"exit code {process.returncode}, expected {want}: {err[-300:]}")
    if OURS.search(err):
        problems.append(f"a traceback of ours: {err[-400:]}")
    after = tree(work)
    changed = sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))
    if changed:
        problems.append(f"files of the user's changed: {changed}")
    new = [line for line in Path("/proc/mounts").read_text().splitlines() if line not in mounts.splitlines()]
    if new:
        problems.append(f"mounts are left: {new}")
    return [
        Attempt(GROUP, case.name, "; ".join(problems) or None),
        Attempt(WORDS, case.name, wrong_words(" ".join(err.split()), changed, case)),
    ]


def start_at(case: Case, words: list[str], work: Path) -> "subprocess.Popen[str]":
    """gpudoctor at a level of protection."""
    with _variables({"GPUDOCTOR_PROTECTION": case.level}):
        return start(words, work)


_LOCK = threading.Lock()


@contextlib.contextmanager
def _variables(values: dict[str, str]) -> Iterator[None]:
    """Environment variables for what is started meanwhile."""
    with _LOCK:
        before = {name: os.environ.get(name) for name in values}
        os.environ.update(values)
        try:
            yield
        finally:
            for name, value in before.items():
                if value is None:
                    os.environ.pop(name, None)
                else:
                    os.environ[name] = value


def scratch_places() -> set[Path]:
    """Folders in which trials keep what their runs write."""
    bases = {"/var/tmp", "/tmp", tempfile.gettempdir()}
    return {path for base in bases for path in Path(base).glob("gpudoctor-trial-*")}


def expected(case: Case, number: int) -> set[int]:
    """Exit codes that are right."""
    if case.signal in ENDINGS:
        return {ENDINGS[case.signal][2]}
    if case.target == "program":
        return {128 + number}
    return {130} if case.signal == "SIGINT" else {128 + number} if case.signal in CAUGHT else {-number}


def wrong_words(err: str, changed: list[str], case: Case) -> str | None:
    """What is said of the user's files, and is not so."""
    if case.signal == "SIGKILL" and case.target != "program":
        return None if "of yours" not in err else "it was killed, and still speaks"
    claims = re.search(r"nothing (else )?of yours was changed|(are|is) as (they were|it was)", err)
    told = all(name in err for name in changed)
    if changed and (claims or not told):
        return f"{changed} changed, and it says: {err[-300:]}"
    if not changed and not claims:
        return f"nothing changed, and it does not say so: {err[-300:]}"
    return None
