"""Endings of a run: `--seconds` and Ctrl-C end it in the stated time, whatever the program does."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from attack.case import Attempt
from attack.kills import OURS, start, wait_until_gone

GROUP = "endings of a run (--seconds, Ctrl-C)"
SECONDS, GRACE, LAST = 1.0, 1.0, 5.0
MARGIN = 4.0
"""Seconds for a machine that is busy with other runs."""
AT_ONCE = 9

HEAD = "import os, signal, subprocess, sys, time\n"
END = "print('ready', flush=True)\nwhile True:\n    time.sleep(0.05)\n"
BOTH = "(signal.SIGINT, signal.SIGTERM)"
PROGRAMS = {
    "ends by itself on the signal": END,
    "ignores SIGINT": "signal.signal(signal.SIGINT, signal.SIG_IGN)\n" + END,
    "ignores SIGINT and SIGTERM": f"for n in {BOTH}: signal.signal(n, signal.SIG_IGN)\n" + END,
    "catches KeyboardInterrupt and goes on": "print('ready', flush=True)\nwhile True:\n    try:\n"
    "        time.sleep(0.05)\n    except KeyboardInterrupt:\n        pass\n",
    "handles both and goes on": f"for n in {BOTH}: signal.signal(n, lambda *_: None)\n" + END,
    "blocks every signal": "signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())\n" + END,
    "is in a loop in C": "print('ready', flush=True)\nimport re\nre.match('(a+)+$', 'a' * 60 + 'b')\n",
    "is stopped": f"for n in {BOTH}: signal.signal(n, signal.SIG_IGN)\nprint('ready', flush=True)\n"
    "while True:\n    os.kill(os.getpid(), signal.SIGSTOP)\n",
    "a daemon of it lives on": "if not os.fork():\n    os.setsid()\n    if os.fork(): os._exit(0)\n"
    "    signal.signal(signal.SIGTERM, signal.SIG_IGN)\n    time.sleep(600)\n" + END,
    "workers in sessions of their own live on": "for _ in range(3):\n"
    "    subprocess.Popen([sys.executable, '-S', '-c', "
    "'import signal, time\\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\\ntime.sleep(600)'], "
    "start_new_session=True)\n" + END,
    "a launcher starts its worker anew": f"for n in {BOTH}: signal.signal(n, signal.SIG_IGN)\n"
    "print('ready', flush=True)\n"
    "while True:\n    subprocess.run([sys.executable, '-S', '-c', 'import time; time.sleep(600)'])\n",
    "a shell that goes on": "os.execvp('sh', ['sh', '-c', "
    "'trap \"\" INT TERM; echo ready; while :; do sleep 0.1; done'])\n",
    "forks without end": f"for n in {BOTH}: signal.signal(n, signal.SIG_IGN)\nprint('ready', flush=True)\n"
    "while True:\n    if not os.fork():\n        time.sleep(2)\n        os._exit(0)\n    time.sleep(0.05)\n"
    "    try:\n        while os.waitpid(-1, os.WNOHANG)[0]: pass\n    except ChildProcessError: pass\n",
}


@dataclass(frozen=True)
class Way:
    """How the end is asked for."""

    name: str
    flags: tuple[str, ...]
    presses: int = 0
    """Ctrl-C, this many."""
    alone: bool = False
    """To gpudoctor only, as `kill` would."""
    number: int = signal.SIGINT


WAYS = (
    Way("--seconds", ("--seconds", f"{SECONDS:g}", "--grace", f"{GRACE:g}")),
    Way("Ctrl-C, --grace", ("--grace", f"{GRACE:g}"), presses=1),
    Way("SIGTERM to gpudoctor, --grace", ("--grace", f"{GRACE:g}"), presses=1, alone=True, number=signal.SIGTERM),
    Way("hang-up, --grace", ("--grace", f"{GRACE:g}"), presses=1, number=signal.SIGHUP),
    Way("Ctrl-C three times", (), presses=3),
)


def attempts(seed: int, scratch: Path) -> Iterator[Attempt]:
    """Every program, every way; then programs that need their time and must have it."""
    del seed  # every combination is tried
    every = [(name, way, scratch / f"{i}-{k}") for i, name in enumerate(PROGRAMS) for k, way in enumerate(WAYS)]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        yield from pool.map(lambda one: ended(*one), every)
        yield from pool.map(lambda way: patient(way, scratch / f"saves-{way.presses}-{way.name[:3]}"), SAVES)


def ended(name: str, way: Way, folder: Path) -> Attempt:
    """One program that is asked to end."""
    process = begin(PROGRAMS[name], way, folder)
    asked = time.monotonic()
    if not way.presses:
        asked += SECONDS
    for press in range(way.presses):
        time.sleep(0.7 if press else 0.1)
        asked = time.monotonic()
        (os.kill if way.alone else os.killpg)(process.pid, way.number)
        if process.poll() is not None:
            break
    most = (0.0 if way.presses == 3 else GRACE) + LAST + MARGIN
    problems = [one for one in finish(process, folder, most + 20) if one]
    took = time.monotonic() - asked
    end = folder / "rec" / "end.json"
    if end.exists():
        # From the request to the end of the command; the report comes on top, and has a limit of its own.
        took -= max(0.0, time.time() - end.stat().st_mtime)
        ending = json.loads(end.read_text())
        if ending["stopped_by"] not in ("seconds", "interrupt"):
            problems.append(f"end.json says that it was stopped by {ending['stopped_by']}")
    else:
        problems.append("no end was written")
    if took > most:
        problems.append(f"{took:.1f} s from the request to the end, at most {most:g} are stated")
    return Attempt(GROUP, f"{name}: {way.name}", "; ".join(problems) or None)


SAVES = (
    Way("Ctrl-C", (), presses=1),
    Way("--seconds", ("--seconds", f"{SECONDS:g}", "--grace", "20"), presses=0),
    Way("SIGTERM", (), presses=1, number=signal.SIGTERM),
)
SAVING = (
    "def save(*_):\n    signal.signal(signal.SIGINT, signal.SIG_IGN)\n    time.sleep(8)\n"
    "    open('saved', 'w').write('all')\n    sys.exit(3)\n"
    f"for n in {BOTH}: signal.signal(n, save)\n" + END
)


def patient(way: Way, folder: Path) -> Attempt:
    """A program that saves for eight seconds when it is asked to end."""
    process = begin(SAVING, way, folder)
    time.sleep(0.2)
    if way.presses:
        os.killpg(process.pid, way.number)
    problems = [one for one in finish(process, folder, 60) if one]
    if process.returncode != 3 or not (folder / "saved").exists():
        problems.append(f"it was ended before it had saved: exit code {process.returncode}")
    return Attempt(GROUP, f"saves for 8 s: {way.name}", "; ".join(problems) or None)


def begin(text: str, way: Way, folder: Path) -> "subprocess.Popen[str]":
    """Start a program, and wait for its word."""
    folder.mkdir()
    (folder / "program.py").write_text(HEAD + text)
    words = ["run", "--recording", str(folder / "rec"), *way.flags, "--", sys.executable, "program.py"]
    with (folder / "err.txt").open("w") as err:  # no pipe: what outlives the program may hold it
        process = start(words, folder, err=err)
    assert process.stdout is not None
    process.stdout.readline()
    return process


def finish(process: "subprocess.Popen[str]", folder: Path, seconds: float) -> Iterator[str]:
    """What is wrong with how it ended."""
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        yield f"still there after {seconds:g} s"
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return
    err = (folder / "err.txt").read_text(errors="replace")
    if OURS.search(err):
        yield f"a traceback of ours: {err[-400:]}"
    left = wait_until_gone(process.pid, folder)
    # What outlives a program that ended by itself, on a Ctrl-C of the user's, does so without us, too.
    if left and json.loads((folder / "rec" / "end.json").read_text())["signals"]:
        yield f"left behind: {left}"
    for pid in left_pids(process.pid, folder):
        os.kill(pid, signal.SIGKILL)


def left_pids(session: int, folder: Path) -> list[int]:
    """Processes that are left, to be ended by us."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            mine = os.getsid(int(path.name)) == session
            if mine or str(folder).encode() in (path / "environ").read_bytes():
                found.append(int(path.name))
        except OSError:
            continue
    return found
