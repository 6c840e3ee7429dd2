"""Whether gradients are cleared between the steps of an optimizer.

Asked of one gradient of each: between its optimizer's last step and the first backward pass of the next it
must have gone away, or been written to (zeroed). Backward passes of other optimizers in between (a GAN's)
add to it and clear nothing, so its version is noted at the end of each.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from .call_sites import Place

if TYPE_CHECKING:
    from collections.abc import Callable

    from .probe import Probe

MANY = 60
"""Cycles after which one that was always cleared is believed."""
FEW = 3
"""Cycles that must have been looked at before anything is told."""


class _Watched:
    """One gradient."""

    __slots__ = ("cleared", "counted", "found", "gradient", "looked", "parameter", "passed", "version")

    def __init__(self, parameter: Any) -> None:
        self.parameter = weakref.ref(parameter)
        self.gradient = 0
        self.version = -1
        self.cleared = True
        self.passed = False
        """Whether a backward pass began since its optimizer's last step, or in it (a closure's)."""
        self.counted = False
        """Whether the cycle is counted, or not to be: a closure may run several backward passes in one step."""
        self.looked = 0
        self.found = 0

    def count(self) -> None:
        """One cycle is over: a backward pass, and the step that used it."""
        if self.passed and not self.counted:
            self.counted = True
            self.looked += 1
            self.found += not self.cleared

    def note(self) -> None:
        """Remember the gradient as it is."""
        parameter = self.parameter()
        gradient = parameter.grad if parameter is not None else None
        if gradient is None:
            self.cleared = True
        else:
            self.gradient = id(gradient)
            self.version = gradient._version

    def look(self) -> None:
        """Whether it has been cleared since it was noted."""
        parameter = self.parameter()
        gradient = parameter.grad if parameter is not None else None
        if gradient is None or id(gradient) != self.gradient or gradient._version != self.version:
            self.cleared = True


class Clearing:
    """One gradient of every optimizer."""

    def __init__(self, plain: Callable[[Any], bool]) -> None:
        self._plain = plain
        self._watched: dict[int, _Watched] = {}
        self._open: list[_Watched] = []
        """Those that have not been seen cleared since their optimizer's last step."""
        self.place: Place = (None, None, None)
        """Where the optimizer's step is called."""

    def after_step(self, optimizer: Any) -> None:
        """An optimizer has made its step."""
        watched = self._watched.get(id(optimizer))
        if watched is None or watched.parameter() is None:
            parameter = next(
                (
                    parameter
                    for group in optimizer.param_groups
                    for parameter in group["params"]
                    if self._plain(parameter) and parameter.grad is not None
                ),
                None,
            )
            if parameter is None:
                return
            watched = self._watched[id(optimizer)] = _Watched(parameter)
        watched.count()
        if watched.looked >= MANY and not watched.found:
            watched.counted = True
            return
        watched.counted = watched.passed = watched.cleared = False
        watched.note()
        if not watched.cleared and watched not in self._open:
            self._open.append(watched)

    def backward_begins(self) -> None:
        """A backward pass begins."""
        for watched in self._watched.values():
            watched.passed = True
        if self._open:
            for watched in self._open:
                watched.look()
            self._open = [watched for watched in self._open if not watched.cleared]

    def backward_ended(self) -> None:
        """It has ended: what it added is no clearing."""
        for watched in self._open:
            watched.note()

    def before_step(self, optimizer: Any) -> None:
        """An optimizer is about to make a step: one cycle of its is over."""
        watched = self._watched.get(id(optimizer))
        if watched is not None:
            watched.count()

    def pause(self) -> None:
        """Steps follow whose backward passes nobody sees."""
        for watched in self._watched.values():
            watched.counted = True
        self._open = []

    def tell(self, probe: Probe) -> None:
        """Write what was found."""
        for watched in self._watched.values():
            if watched.looked >= FEW and watched.found:
                path, line, _ = self.place
                fields = {"kind": "uncleared", "step": probe.steps.index, "steps": watched.looked}
                probe.record("numeric", {**fields, "found": watched.found, "path": path, "line": line})
