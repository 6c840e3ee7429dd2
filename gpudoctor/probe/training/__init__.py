"""What is really trained: batches, labels, parameters, schedules, states. Seen on steps that are looked at closely.

A light step is only timed, and nothing here runs in it (`clock.light`). A device's numbers are handed to
`numerics.read_all` and never waited for. Each module gives its hook an entry in `probe/start.py`.
"""

from __future__ import annotations

from typing import Any, Callable


def both(first: Callable[..., Any], second: Callable[..., Any]) -> Callable[..., None]:
    """Calls one after the other with the same arguments."""

    def call(*args: Any) -> None:
        first(*args)
        second(*args)

    return call
