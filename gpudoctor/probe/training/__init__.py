"""What is really trained: batches, labels, parameters, schedules, states. Seen on steps that are looked at closely.

A light step is only timed, and nothing here runs in it (`clock.light`). A device's numbers are handed to
`numerics.read_all` and never waited for. Each module gives its hook an entry in `probe/start.py`.
"""

from __future__ import annotations

from typing import Any, Callable

from ..guard import interrupts

_TOLD = frozenset(
    {"builtins", "torch", "datasets", "numpy", "accelerate", "transformers", "lightning", "pytorch_lightning"}
)
"""Libraries whose lengths run no code of the program's."""


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
        if type(held.get("num_samples")) is not int:
            around += [held[name] for name in ("batch_sampler", "sampler", "data_source") if held.get(name) is not None]
    try:
        return len(owner)
    except Exception as error:  # an iterable has none
        if interrupts(error):
            raise
        return None
