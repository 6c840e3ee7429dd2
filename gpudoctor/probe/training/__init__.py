"""What is really trained: batches, labels, parameters, schedules, states. Seen on steps that are looked at closely.

A light step is only timed, and nothing here runs in it (`clock.light`). A device's numbers are handed to
`numerics.read_all` and never waited for. Each module gives its hook an entry in `probe/start.py`.
"""

from __future__ import annotations

import sys
from time import perf_counter
from typing import TYPE_CHECKING, Any, Callable

from ..call_sites import where
from ..clock import PROBE
from ..guard import interrupts
from ..tensor_reads import Budget

if TYPE_CHECKING:
    from ..probe import Probe

SHARE = 0.0005
"""Share of the time for the looks of one kind."""
FIRST = 3
"""How many of them are taken whatever they cost."""

_TOLD = frozenset(
    {"builtins", "torch", "datasets", "numpy", "accelerate", "transformers", "lightning", "pytorch_lightning"}
)
"""Libraries whose lengths run no code of the program's."""


class Look:
    """One kind of look at the training: when it is due, what it costs, what it has written down."""

    def __init__(self, probe: Probe) -> None:
        self._probe = probe
        self._torch = probe.torch
        self.again()

    def again(self) -> None:
        """For a new recording nothing has been seen."""
        self._budget = Budget(SHARE)
        self._next = 0
        self._told: dict[str, str] = {}

    def tell(self) -> None:
        """Write what is known by now; nothing, where each look is written down at once."""

    def ended(self) -> None:
        """A watched step has ended."""
        if self.ripe():
            self.tell()

    def due(self, number: int) -> bool:
        """Whether to take this look: the first ones, each power of two, and some more while they are cheap."""
        power_of_two = not number & (number - 1)
        sixteenth = not number & 15
        return number <= FIRST or power_of_two or (sixteenth and self._budget.due())

    def ripe(self) -> bool:
        """Whether the first step since 1, 2, 4, 8... steps is over."""
        index = self._probe.steps.index
        if index < self._next:
            return False
        self._next = 1 << index.bit_length()
        return True

    # Not by contextlib: Dynamo, which meets its code here, would not trace it in the program either.

    def __enter__(self) -> None:
        """What is done until the end is charged to the budget, and to the probe's time."""
        self._began = perf_counter()

    def __exit__(self, *_: object) -> None:
        took = perf_counter() - self._began
        self._budget.charge(took)
        self._probe.clock.charge(PROBE, took)

    def place(self) -> dict[str, Any]:
        """Path and line of the program that led here."""
        path, line, _ = where(self._probe.places.user_frame(sys._getframe(2)))
        return {"path": path, "line": line}

    def write(self, kind: str, facts: dict[str, Any]) -> None:
        """Write a record down, if it says something new."""
        text = repr(facts)
        if text != self._told.get(kind):
            self._told[kind] = text
            self._probe.record(kind, {"step": self._probe.steps.index, **facts})


def both(first: Callable[..., Any], second: Callable[..., Any]) -> Callable[..., None]:
    """Calls one after the other with the same arguments."""

    def call(*args: Any) -> None:
        first(*args)
        second(*args)

    return call


def length(owner: Any) -> int | None:
    """`len()` of a loader, sampler or data set; None where that would run the program's own code."""
    around = [owner]
    for each in around:
        if type(each).__module__.partition(".")[0] not in _TOLD or len(around) > 8:
            return None
        held = getattr(each, "__dict__", None) or {}
        # A sampler that was given its number asks nothing inside for one.
        if type(held.get("num_samples")) is not int:
            names = ("batch_sampler", "sampler", "data_source")
            inside = [held[name] for name in names if held.get(name) is not None]
            around += [item for item in inside if all(item is not known for known in around)]
    try:
        return len(owner)
    except Exception as error:  # an iterable has none
        if interrupts(error):
            raise
        return None
