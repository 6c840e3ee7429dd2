"""Talks to a process that forks a child a request (zygote.py), started once for all tests of a worker."""

import atexit
import functools
import json
import os
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from gpudoctor.trial.processes import adopt_orphans

Finished = subprocess.CompletedProcess[str]
FORKS_TRAININGS = sys.platform == "linux" and hasattr(subprocess, "_fork_exec")
"""Whether zygote_training.py works here: Linux, Python 3.11 or later; elsewhere interpreters are started."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """A child to fork: its words, folder and environment; what it says goes through files in the folder `said`."""

    words: Sequence[str]
    folder: Path
    environment: Mapping[str, str]
    said: Path
    limit: float
    """Seconds after which it is killed."""
    trainings: int = 0
    """So many Python scripts that a command starts are forked as well (zygote_training.py)."""

    loaded: Sequence[str] = ()
    """Modules that it, or what it starts, finds loaded; the process that it is forked from loads them once."""
    path: Sequence[str] = ()
    """What PYTHONPATH would have: folders in which a command finds modules and plugins."""
    streams: str = ""
    """A socket that gives it its three streams, in place of files in `said` (shell_lines.py)."""
    door: str = ""
    """The config of a trial's door that it goes through before it begins (zygote.py)."""
    meet: str = ""
    """The socket at which a training waits to be started by this very process (zygote_training.py)."""
    parent: int = field(default_factory=os.getpid)

    name: str = ""
    """By which it and what it forks can be found in /proc, at most 15 bytes (Linux)."""

    def finished(self, code: int) -> Finished:
        """How it ended, with what it said."""
        texts = [(self.said / name).read_text(encoding="utf-8") for name in ("stdout", "stderr")]
        return subprocess.CompletedProcess(list(self.words), code, *texts)


class Zygote:
    """One such process; `program` is the file beside this one that it runs."""

    def __init__(self, program: str, environment: dict[str, str]) -> None:
        words = [sys.executable, str(Path(__file__).with_name(program))]
        self._process = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )

    def run(self, request: Request) -> Finished:
        """Run one child to its end."""
        return self.run_together([request])[0]

    def run_together(self, requests: Sequence[Request]) -> list[Finished]:
        """Run children beside each other, all of them to their end."""
        self.ask(requests)
        return [request.finished(code) for request, code in zip(requests, self.answer(), strict=True)]

    def begin(self, request: Request) -> "Begun":
        """Start one child; nothing else can run here until its end was waited for."""
        [pid] = self.ask([request])
        return Begun(request, pid, lambda: self.answer()[0])

    def ask(self, requests: Sequence[Request]) -> list[int]:
        """Start children beside each other; their process ids. `answer` waits for their exit codes."""
        assert self._process.stdin is not None
        asked = [{**vars(request), "folder": str(request.folder), "said": str(request.said)} for request in requests]
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        return self.answer()

    def answer(self) -> list[int]:
        """The next answer: process ids, then exit codes once all have ended."""
        assert self._process.stdout is not None
        return json.loads(self._process.stdout.readline())

    def close(self) -> None:
        """End it."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(60)


class Begun:
    """A child that may still run, with what its tests need of `subprocess.Popen`."""

    def __init__(self, request: Request, pid: int, code: Callable[[], int]) -> None:
        self.pid = pid
        self.stdout = self
        self._request = request
        self._code = functools.cache(code)
        self._read = 0

    def readline(self) -> str:
        """The next line that it says; what there is of it once the child has ended."""
        path = self._request.said / "stdout"
        while True:
            ended = not Path(f"/proc/{self.pid}").exists()
            text = path.read_text(encoding="utf-8") if path.exists() else ""
            line, end, _ = text[self._read :].partition("\n")
            if end or ended:
                self._read += len(line + end)
                return line + end
            time.sleep(0.01)

    @property
    def returncode(self) -> int:
        """Its exit code; waits for it, and for no longer than the request's limit."""
        return self._code()

    def wait(self, _seconds: float = 0.0) -> int:
        """The same, as Popen has it."""
        return self.returncode

    def communicate(self, timeout: float = 0.0) -> tuple[str, str]:
        """What it said, from the line on that was not read yet, and its errors; waits for its end."""
        done = self._request.finished(self.wait(timeout))
        return done.stdout[self._read :], done.stderr


def own_environment() -> dict[str, str]:
    """The environment of the tests, without what concerns gpudoctor."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GPUDOCTOR_")}
    return {**kept, "PYTHONUTF8": "1"}


@functools.cache
def zygote(program: str) -> Zygote:
    """The worker's own, for a program."""
    made = Zygote(program, own_environment())
    atexit.register(made.close)
    return made


def fork_trainings(monkeypatch: pytest.MonkeyPatch, count: int, loaded: Sequence[str] = ()) -> None:
    """Have the next `count` Python scripts, or children of ours that load torch, that this process starts forked from
    one that has torch and what is `loaded`.

    They are its real children: whoever forks them ends at once, and orphans are adopted by this process.
    """
    if not FORKS_TRAININGS:
        return
    from zygote_training import Spare, Starting

    adopt_orphans()
    made = []
    with TemporaryDirectory() as place, socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as server:
        meet = str(Path(place, "meet"))
        server.bind(meet)
        server.listen()
        asked = Request(
            words=["spare"],
            folder=Path(place),
            environment=own_environment(),
            said=Path(place),
            limit=60,
            meet=meet,
            loaded=loaded,
        )
        for _ in range(count):
            zygote("zygote_training.py").run(asked)
            line, _ = server.accept()
            pid, _, _ = struct.unpack("3i", line.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
            made.append(Spare(pid, line))
    monkeypatch.setattr(subprocess, "_fork_exec", Starting(made, ours=True))
