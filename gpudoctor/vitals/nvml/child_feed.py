"""A child process that reads the driver, seen from its parent, who never waits for it."""

import json
import os
import select
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from gpudoctor.model.child_process import ROOT

_CHILD = "gpudoctor.vitals.nvml.child"
_PATIENCE = 0.5
"""Seconds that a killed child is waited for; one that hangs in the driver cannot even be killed."""


class ChildFeed:
    """The JSON records of one child that does a job of `child.main`; every method but `wait` returns at once.

    Raises `OSError` where it cannot be started.
    """

    def __init__(self, *words: str, longest: int, environment: Mapping[str, str] | None = None) -> None:
        self.ended = False
        """Whether the child has closed its output."""
        self._longest = longest
        self._buffer = b""
        places = [*filter(None, sys.path), str(ROOT)]
        code = f"import sys; sys.path[:0] = {places!r}; from {_CHILD} import main; sys.exit(main(*sys.argv[1:]))"
        self._child = subprocess.Popen(
            # No PYTHONPATH, no sitecustomize of anybody (nor the probe), no .pth files; a start of 10 ms.
            [sys.executable, "-I", "-S", "-c", code, *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=None if environment is None else dict(environment),
            start_new_session=True,  # Ctrl-C is not for it
        )
        assert self._child.stdout is not None
        self._output = self._child.stdout
        os.set_blocking(self._output.fileno(), False)

    @property
    def code(self) -> int | None:
        """How the child ended; None while it lives."""
        return self._child.poll()

    def records(self) -> list[dict[str, Any]]:
        """What came since the last call; a line of more than `longest` bytes is none of the child's."""
        with suppress(BlockingIOError, OSError, ValueError):
            while chunk := os.read(self._output.fileno(), 1 << 16):
                self._buffer += chunk
            self.ended = True
        *lines, self._buffer = self._buffer.split(b"\n")
        if len(self._buffer) > self._longest:
            self._buffer = b""
        return [json.loads(line) for line in lines if line]

    def wait(self, seconds: float) -> bool:
        """Wait for more, at most so long; False if nothing came."""
        return bool(select.select([self._output], [], [], seconds)[0])

    def exit_code(self) -> int | None:
        """How a child that has closed its output ended; None for one that does not end."""
        with suppress(subprocess.TimeoutExpired):
            return self._child.wait(timeout=1.0)
        return None

    def close(self) -> None:
        """End the child; one that hangs in the driver is left behind."""
        for pipe in (self._child.stdin, self._output):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()
        self._child.kill()
        with suppress(subprocess.TimeoutExpired):
            self._child.wait(timeout=_PATIENCE)
