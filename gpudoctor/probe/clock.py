"""What the training thread is doing and since when: the phase, and the row of the step in the making.

Everything here runs in the training itself, several times a step: no allocation, no call that is not needed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from time import perf_counter
from typing import Any

from .importlib_bootstrap import nothing
from .table import AT, EMPTY, OTHER
from .wire.steps import PHASES

(DATA_WAIT, TRANSFER, FORWARD, BACKWARD, OPTIMIZER, SYNC, LOGGING, CHECKPOINT, EVALUATION, PROFILER, COLLECTIVE) = (
    AT[name] for name in PHASES
)

PROBE = AT["probe"]
"""Our own readings: no phase of the training, but time of its."""

NAMES = {**{AT[name]: name for name in (*PHASES, "probe")}, OTHER: "other"}

_OWNERS = {DATA_WAIT, SYNC, LOGGING, CHECKPOINT, EVALUATION, PROFILER}
OWNS = tuple(place in _OWNERS for place in range(OTHER + 1))
"""Phases that own what happens inside them: what a collate function reads is data wait, not a sync."""


class Clock:
    """Exclusive times of the phases of one thread, the training's."""

    __slots__ = (
        "compiled", "deep", "device", "error", "failed", "ident", "light", "mark", "own", "phase", "quick", "row",
        "scaling", "started", "take",
    )  # fmt: skip

    def __init__(self) -> None:
        self.started = perf_counter()
        self.take: Callable[[], None] = nothing
        """Counts what compiled code has left in `compiled`."""
        self.renew()

    def renew(self) -> None:
        """In a new process: nothing has happened yet."""
        self.started = self.mark = perf_counter()
        self.phase = OTHER
        self.row: list[float] = list(EMPTY)
        self.device: Any = None
        """What times the device's work at every change of phase (device_clock.py); None without a device."""
        self.light = False
        """Whether the step in the making is only timed (sampling_policy.py)."""
        self.quick = False
        """Whether, besides, a hook may set phase and mark itself: nothing else asks for the changes of phase."""
        self.own = 0.0
        """Seconds that our readings of a watched step took before its optimizer's."""
        self.scaling = False
        """Whether a gradient scaler asks whether its optimizer may step: it waits for the device."""
        self.deep = False
        """Whether calls of modules are let through: inside another one."""
        self.compiled: Any = None
        """The optimizer whose step compiled code has made, until the next hook counts it (`take`)."""
        self.ident = threading.get_ident()
        """The thread that trains."""
        self.error = 0
        """Id of the exception that a hook saw last."""
        self.failed = OTHER
        """The innermost phase that it passed through."""

    def switch(self, phase: int) -> int:
        """From now on the time is this phase's; returns the one before."""
        if self.compiled is not None:
            self.take()
        now = perf_counter()
        before = self.phase
        self.row[before] += now - self.mark
        self.mark = now
        self.phase = phase
        if self.device is not None:
            self.device.edge(before, now)
        return before

    def passed(self, error: BaseException | None) -> None:
        """An exception leaves the current phase; the end of a loader is none."""
        if id(error) != self.error and type(error) is not StopIteration:
            self.error = id(error)
            self.failed = self.phase

    def charge(self, phase: int, seconds: float) -> None:
        """Seconds of the current phase that were another's all along; for things too short to switch for."""
        self.row[phase] += seconds
        self.row[self.phase] -= seconds

    def now(self) -> float:
        """Seconds since the start."""
        return perf_counter() - self.started
