"""Talks to a process that forks a child a request (zygote.py), started once for all tests of a worker."""

import atexit
import functools
import json
import os
import subprocess
import sys
from pathlib import Path

Finished = subprocess.CompletedProcess[str]


class Zygote:
    """One such process; `program` is the file beside this one that it runs."""

    def __init__(self, program: str, arguments: tuple[str, ...], environment: dict[str, str]) -> None:
        words = [sys.executable, str(Path(__file__).with_name(program)), *arguments]
        self._process = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )

    def run(
        self, words: list[str], folder: Path, environment: dict[str, str], said: Path, limit: float
    ) -> Finished:
        """Run words in a folder; what they say goes through files in the folder `said`."""
        request = {
            "words": words,
            "environment": environment,
            "folder": str(folder),
            "said": str(said),
            "limit": limit,
        }
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        code = int(self._process.stdout.readline())
        texts = [(said / name).read_text(encoding="utf-8") for name in ("stdout", "stderr")]
        return subprocess.CompletedProcess(words, code, *texts)

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
def zygote(program: str, *arguments: str, number: int = 0) -> Zygote:
    """The worker's own, for a program; those of other numbers can run one beside it."""
    made = Zygote(program, arguments, own_environment())
    atexit.register(made.close)
    return made
