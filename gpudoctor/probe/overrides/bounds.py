"""`trial.*`: the end of a bounded run, equal seeds, and random numbers that an evaluation does not move."""

from __future__ import annotations

import os
import random
import sys
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import Trial

ENOUGH, DONE = "enough", "done"
"""Files of the recording's folder: the parent has seen enough; a rank has written all and stands still."""
_LOOK = 0.2
"""Seconds between two looks for the first."""


def apply(trial: Trial, detail: str, value: Any) -> None:
    """`steps` (None: until the parent says so), `seed`, `isolate`, `fences` (numbers of steps)."""
    if detail == "steps":
        trial.probe.steps.after.append(End(trial, value).stepped)
    elif detail == "seed":
        seed(trial, int(value))
    elif detail == "fences":
        fence(trial, [int(step) for step in value])
    elif detail == "isolate" and value:
        from .isolation import Isolation

        Isolation(trial).install()


def seed(trial: Trial, value: int) -> None:
    """Equal random numbers in every run, as long as the program does not seed by itself."""
    value += trial.probe.identity.rank or 0
    random.seed(value)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(value)
    trial.torch.manual_seed(value)


def fence(trial: Trial, steps: list[int]) -> None:
    """Before each of these steps the device has done what came before: the wait is the end of the last one."""
    probe = trial.probe

    def ends() -> None:
        if probe.device_clock.finish():
            trial.reached("trial.fences")

    probe.steps.fences = frozenset(steps)
    probe.steps.fence = probe.guard.safely("fences", ends)


class End:
    """Ends the window: what was recorded is written, and this process waits to be ended with all others.

    It does not end by itself: what started it (a shell script) would go on with its next line.
    """

    def __init__(self, trial: Trial, steps: int | None) -> None:
        self._trial = trial
        self._steps = steps
        self._enough = os.path.join(trial.probe.identity.folder, ENOUGH)
        self._looked = time.perf_counter()

    def stepped(self) -> None:
        """A step has ended."""
        if self._steps is not None and self._trial.probe.steps.index >= self._steps:
            self._stand_still()
        now = time.perf_counter()
        if now - self._looked >= _LOOK:
            self._looked = now
            if os.path.exists(self._enough):
                self._stand_still()

    def _stand_still(self) -> None:
        trial = self._trial
        trial.probe.end()
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except (OSError, ValueError, AttributeError):
                pass
        identity = trial.probe.identity
        done = os.path.join(identity.folder, f"{DONE}-{identity.label}-{identity.pid}")
        with open(done, "w", encoding="utf-8"):
            pass
        while True:
            try:
                time.sleep(3600)
            except BaseException:  # the parent's SIGKILL ends this, nothing else
                continue
