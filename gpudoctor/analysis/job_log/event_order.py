"""Which of some events of a log came first, and which may be of the same moment."""

from collections.abc import Sequence

from gpudoctor.model.signs.job_log import LogEvent

_HALF_A_DAY = 43_200.0
"""Seconds: two clocks without a day that differ by more have midnight between them."""
_SAME_MOMENT = 90.0
"""Seconds within which the ranks of a job die of one cause: their lines are in the order of their buffers."""


def earliest(events: Sequence[LogEvent]) -> LogEvent | None:
    """The earliest: by time where both have one and it differs clearly, else as they stand."""
    best: LogEvent | None = None
    for item in events:
        if best is None or _before(item, best):
            best = item
    return best


def _before(one: LogEvent, other: LogEvent) -> bool:
    if one.seconds is not None and other.seconds is not None and one.path == other.path:
        return one.seconds < other.seconds - 1e-6 and abs(one.seconds - other.seconds) < _HALF_A_DAY
    return one.order < other.order


def may_be_together(one: LogEvent, other: LogEvent) -> bool:
    """Whether two events may be of the same moment."""
    if one.seconds is not None and other.seconds is not None:
        return abs(one.seconds - other.seconds) <= _SAME_MOMENT
    return True
