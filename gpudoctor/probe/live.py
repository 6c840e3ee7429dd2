"""Signs of life: the small file for the parent's live line, and what is written when no step ends any more."""

from __future__ import annotations

import json
import os
from time import perf_counter
from typing import TYPE_CHECKING, Any

from .call_sites import rows_of
from .clock import NAMES, PROBE
from .stacks import stack_of_thread
from .table import AT
from .wire.frames import private
from .wire.steps import PHASES

if TYPE_CHECKING:
    from .probe import Probe

FIRST = 10.0
"""Seconds without the end of a step before the first heartbeat; the next is at twice that, up to `EVERY`."""
EVERY = 60.0
SLOW = 20.0
"""A heartbeat needs so many usual steps, too."""


class Live:
    """`live-RANK-PID.json`: how far this rank is."""

    def __init__(self, probe: Probe) -> None:
        self._probe = probe
        self._steps = 0
        self._last = 0.0
        self._path = ""

    def write(self) -> None:
        """Replace it, if a step has ended meanwhile."""
        steps = self._probe.steps
        done, last = steps.index, steps.last
        if done <= self._steps:
            return
        fields: dict[str, Any] = {
            "step": done,
            "seconds": (last - self._last) / (done - self._steps) if self._last else None,
            "phases": self._shares(),
            "phase": NAMES[self._probe.clock.phase],
            "peak": self._newest("peak") or self._newest("allocated"),
            "reserved": self._newest("reserved"),
        }
        self._steps, self._last = done, last
        identity = self._probe.identity
        self._path = os.path.join(identity.folder, f"live-{identity.label}-{identity.pid}.json")
        temporary = self._path + ".new"
        with open(temporary, "w", encoding="utf-8", opener=private) as stream:
            json.dump(fields, stream)
        os.replace(temporary, self._path)

    def _shares(self) -> dict[str, float]:
        columns = self._probe.recent
        total = sum(columns[AT["duration"]]) if columns else 0.0
        if not total:
            return {}
        return {name: round(sum(columns[AT[name]]) / total, 4) for name in PHASES}

    def _newest(self, column: str) -> float | None:
        """Its last known value in the steps written last."""
        columns = self._probe.recent
        known = [value for value in columns[AT[column]] if value == value] if columns else []
        return known[-1] if known else None

    def remove(self) -> None:
        """The process ends."""
        if self._path:
            os.unlink(self._path)


class Heart:
    """Writes where the training thread is when no step has ended for a while."""

    def __init__(self, probe: Probe) -> None:
        self._probe = probe
        self._first = float(probe.settings.get("heartbeat", FIRST))
        self._step = -1
        self._next = 0.0
        self._usual = 0.0

    def beat(self) -> None:
        """Called once a second."""
        steps, clock = self._probe.steps, self._probe.clock
        waited = perf_counter() - steps.last
        if steps.index != self._step:
            if self._probe.recent:
                durations = sorted(self._probe.recent[AT["duration"]])
                self._usual = durations[len(durations) // 2]
            self._step = steps.index
            self._next = max(self._first, SLOW * self._usual)
        if waited < self._next:
            return
        self._next = waited + min(waited, EVERY)
        stack = stack_of_thread(clock.ident)
        fields = {"step": steps.index, "phase": NAMES[clock.phase], "seconds": round(waited, 3)}
        self._probe.record("heartbeat", {**fields, "stack": rows_of(stack)})


# What is known by now, written down when gpudoctor is about to end the command. A signal that kills leaves no time
# for an orderly end. So a file in the recording's folder announces it: our thread sees the file, and the training
# thread writes between two steps.

ENDING = "ending"
"""Name of that file."""


class KnownByNow:
    """Writes it once."""

    def __init__(self, probe: Probe) -> None:
        self._probe = probe
        self._path = os.path.join(probe.identity.folder, ENDING)
        self.renew()

    def renew(self) -> None:
        """In a new process."""
        self._asked = self._answered = False

    def look(self) -> None:
        """From our thread: is the command about to be ended?"""
        self._asked = self._asked or os.path.exists(self._path)

    def ended(self) -> None:
        """A step has ended."""
        if self._asked and not self._answered:
            self._answered = True
            before = self._probe.clock.switch(PROBE)
            self._probe.tell_all()
            self._probe.clock.switch(before)
