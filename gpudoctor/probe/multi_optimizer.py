"""Which optimizer's steps end the steps of the training, where there are several.

The anchor is the one that closes a cycle: of those that alternate the one that came last (a GAN's generator,
the second of Muon and AdamW), of those that step more and less often the rarer one (a critic trained five
times for each step of its generator), unless it is so rare that the others make the rhythm. A loop shows that
only when it has gone round: until then its first steps are held, and made one where they were parts of a cycle.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from .table import OTHER

if TYPE_CHECKING:
    from .steps import Steps

RARE = 16
"""Steps of another optimizer after which the anchor has lost the rhythm, and the longest cycle there is."""
FIRST, HELD = 8, 10.0
"""Steps that are held, and seconds: a run that is killed is to have them."""
_IDLE = 256
"""Optimizers without a step that are remembered."""


class Cycles:
    """Chooses the anchor of `Steps`."""

    def __init__(self, steps: Steps) -> None:
        self._steps = steps
        self.renew()

    def renew(self) -> None:
        """In a new process: no optimizer is known."""
        self._idle: dict[int, Any] = {}
        """Weak references to the optimizers that were made and have made no step."""
        self._others: list[tuple[int, float]] = []
        """Steps of others since the anchor's last, each with its end."""
        self._latest: dict[int, int] = {}
        """How many steps there were when others than the anchor made theirs."""
        self._run = 0
        """Steps of the anchor without one of another between."""
        self._until = 0.0
        """Until when first steps are held."""

    def made(self, optimizer: Any) -> None:
        """An optimizer is there, which may take part."""
        if len(self._idle) < _IDLE:
            self._idle[id(optimizer)] = weakref.ref(optimizer)

    def inner(self, optimizer: Any) -> None:
        """It takes part as a part of another one's step."""
        self._idle.pop(id(optimizer), None)

    def closes(self, key: int, now: float) -> bool:
        """Whether the step of an optimizer that ended right now is the end of a step of the training."""
        steps = self._steps
        if key == steps.anchor:
            if self._others:
                self._others = []
                self._run = 0
            self._run += 1
        elif key not in steps.known and (steps.held() or not steps.anchor):
            self._join(key)
        elif not self._takes_over(key, now):
            return False
        if steps.held() and (steps.index >= FIRST or now > self._until):
            steps.hold(False)
        return True

    def _join(self, key: int) -> None:
        """An optimizer takes part from the first cycle on: it closes it, unless another one comes after it."""
        steps = self._steps
        if steps.anchor:
            steps.reopen()
        elif steps.begins() and any(reference() is not None for reference in self._idle.values()):
            self._until = steps.last + HELD
            steps.hold(True)
        self._choose(key, 1)

    def _takes_over(self, key: int, now: float) -> bool:
        """Another one than the anchor has made a step: whether it is the anchor from now on."""
        steps = self._steps
        between = steps.index - self._latest.get(key, steps.index)
        self._latest[key] = steps.index
        if 1 < between <= RARE:  # the anchor is the one that steps more often
            if steps.held():
                steps.reopen()
            self._choose(key, 1)
            return True
        before = [end for other, end in self._others if other == key]
        repeated = bool(before) and self._others[-1][0] == key
        if len(before) == RARE or (repeated and self._run > 1):  # one after the other, each for a while
            steps.were_steps(before)
            self._choose(key, 2)
            return True
        self._others.append((key, now))
        self._know(key)
        return False

    def _choose(self, key: int, run: int) -> None:
        steps = self._steps
        self._know(key)
        self._latest = {other: min(at, steps.index) for other, at in self._latest.items()}
        self._latest[steps.anchor] = steps.index
        self._others = []
        self._run = run
        steps.anchor = key

    def _know(self, key: int) -> None:
        self._steps.known[key] = key, OTHER
        self._idle.pop(key, None)
