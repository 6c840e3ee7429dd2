"""`replay.nan`: a step again, every operation watched (`step`), or with more digits (`precision`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import Trial


def apply(trial: Trial, _detail: str, value: Any) -> None:
    """Install it; `value` is a table of `step` (from 0) and `precision` (`float32`, `float64` or nothing)."""
    from ..replay import session  # only where it is asked for

    session.apply(trial, value)
