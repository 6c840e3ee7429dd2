"""The probe's one thread: it looks at the training thread's stack, writes what waits, shows that we live."""

from __future__ import annotations

import json
import os
import threading
from time import perf_counter
from typing import TYPE_CHECKING, Any

from .clock import NAMES
from .table import AT, PHASES

if TYPE_CHECKING:
    from .probe import Probe

INTERVAL = 0.02
"""Seconds between two looks at the stack."""
WRITE = 1.0
"""Seconds between two writes."""


class Sampler:
    """A daemon thread; it never calls into torch."""

    def __init__(self, probe: Probe) -> None:
        self._probe = probe
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None
        self._written = perf_counter()
        self._live = Live(probe)
        self._tick = probe.guard.safely("sampler", self._look)

    def start(self) -> None:
        """Start the thread, if it does not run."""
        if self._thread is None:
            self._wake = threading.Event()
            self._thread = threading.Thread(target=self._run, name="gpudoctor", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Stop it and wait for it (before a fork, at the end)."""
        thread, self._thread = self._thread, None
        if thread is not None and thread.is_alive():
            self._wake.set()
            thread.join(1.0)

    def last(self) -> None:
        """What is left at the end."""
        self._live.remove()

    def _run(self) -> None:
        wake = self._wake
        while not wake.wait(INTERVAL):
            self._tick()

    def _look(self) -> None:
        now = perf_counter()
        if now - self._written >= WRITE:
            self._written = now
            self._write()

    def _write(self) -> None:
        probe = self._probe
        if not probe.shown:
            return
        probe.steps.rss = _rss()
        probe.flush()
        self._live.write()


_PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096


def _rss() -> float:
    """Resident bytes of this process; NaN where the system does not say."""
    try:
        with open("/proc/self/statm", "rb") as stream:
            return float(int(stream.read().split()[1]) * _PAGE)
    except (OSError, ValueError, IndexError):
        return float("nan")


class Live:
    """The small file that says where a rank stands, for the parent's live line."""

    def __init__(self, probe: Probe) -> None:
        identity = probe.identity
        self._probe = probe
        self._path = os.path.join(identity.folder, f"live-{identity.label}-{identity.pid}.json")
        self._steps = 0
        self._last = 0.0
        self._phases: dict[str, float] = {}
        self._there = False

    def write(self) -> None:
        """Replace it."""
        steps = self._probe.steps
        done, last = steps.index, steps.last
        if done > self._steps:
            seconds = (last - self._last) / (done - self._steps) if self._last else None
            fields: dict[str, Any] = {
                "step": done,
                "seconds": seconds,
                "phases": self._shares(),
                "phase": NAMES[self._probe.clock.phase],
            }
            self._steps, self._last = done, last
            temporary = self._path + ".new"
            with open(temporary, "w", encoding="utf-8") as stream:
                json.dump(fields, stream)
            os.replace(temporary, self._path)
            self._there = True

    def _shares(self) -> dict[str, float]:
        columns = self._probe.recent
        total = sum(columns[AT["duration"]]) if columns else 0.0
        if not total:
            return {}
        return {name: round(sum(columns[AT[name]]) / total, 4) for name in PHASES}

    def remove(self) -> None:
        """The run is over."""
        if self._there:
            os.unlink(self._path)
