"""Talks to a process that forks a child a request (zygote.py), started once for all tests of a worker."""

import atexit
import functools
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

Finished = subprocess.CompletedProcess[str]


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
        assert self._process.stdin is not None and self._process.stdout is not None
        asked = [
            {**vars(request), "folder": str(request.folder), "said": str(request.said)} for request in requests
        ]
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        codes = json.loads(self._process.stdout.readline())
        return [request.finished(code) for request, code in zip(requests, codes, strict=True)]

    def close(self) -> None:
        """End it."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(60)


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
