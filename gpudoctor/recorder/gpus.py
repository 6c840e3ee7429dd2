"""The parent's side of the GPU sampler: starts the child, takes its newest reading, never waits for it."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from gpudoctor.vitals.nvml import sampling

_LONGEST = 1 << 20
"""Bytes of one line of the child; a longer one is none of ours."""


class GpuFeed:
    """Readings of the GPUs that the command sees. Every method returns at once."""

    def __init__(self, environment: Mapping[str, str], interval: float = 1.0) -> None:
        self.facts: list[dict[str, Any]] | None = None
        """Name, `bytes` and `power_limit` of each GPU; None until the driver has answered."""
        self._buffer = b""
        self._child: subprocess.Popen[bytes] | None = None
        if sys.platform == "win32":  # no pipe there can be asked without waiting
            self.facts = []
            return
        try:
            self._child = _start(environment, interval)
        except OSError:
            self.facts = []
            return
        assert self._child.stdout is not None
        os.set_blocking(self._child.stdout.fileno(), False)

    def latest(self) -> list[dict[str, float]]:
        """The newest sample of each GPU since the last call; empty when there is none."""
        newest: list[dict[str, float]] = []
        for record in self._records():
            if record.get("record") == "gpus":
                self.facts = list(record["gpus"])
            elif record.get("record") == "sample":
                newest = list(record["gpus"])
        return newest

    def close(self) -> None:
        """End the child; one that hangs in the driver is left behind, it cannot even be killed."""
        if self._child is None:
            return
        for pipe in (self._child.stdin, self._child.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()
        self._child.kill()
        with suppress(subprocess.TimeoutExpired):
            self._child.wait(timeout=0.5)

    def _records(self) -> list[dict[str, Any]]:
        if self._child is None or self._child.stdout is None:
            return []
        with suppress(BlockingIOError, OSError, ValueError):
            while True:
                chunk = os.read(self._child.stdout.fileno(), 1 << 16)
                if not chunk:  # it ended: there is no driver, or no GPU
                    self.facts = self.facts if self.facts is not None else []
                    break
                self._buffer += chunk
        *lines, self._buffer = self._buffer.split(b"\n")
        if len(self._buffer) > _LONGEST:
            self._buffer = b""
        return [json.loads(line) for line in lines if line]


def _start(environment: Mapping[str, str], interval: float) -> "subprocess.Popen[bytes]":
    here = str(Path(sampling.__file__).resolve().parents[3])
    visible = environment.get("CUDA_VISIBLE_DEVICES", "all")
    words = [str(sampling.__file__), visible or "-", str(interval), *filter(None, sys.path), here]
    return subprocess.Popen(
        # Like the survey's child: no PYTHONPATH, no sitecustomize of anybody, nor the probe.
        [sys.executable, "-I", "-S", *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=dict(environment),
        start_new_session=True,  # Ctrl-C is not for it
    )
