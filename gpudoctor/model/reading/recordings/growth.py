"""Memory that grows with the steps: how fast, how surely, and when it runs out."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from gpudoctor.model.reading.recordings.steady import steady
from gpudoctor.model.reading.recordings.trends import Trend, trend
from gpudoctor.model.signs.recording import Process

LEAST_STEPS = 50
"""Steps before growth is judged: allocators, caches and lazily loaded libraries fill up in the first ones."""
_SETTLING = 0.15
"""Share of the steady steps that is left out for the same reason."""
_SURE = 1e-3
"""Mann-Kendall p-value above which an order may be chance."""
_RISING = 0.6
"""Kendall's tau below which a series goes up and down."""
_STILL_GROWING = 0.35
"""Slope of the second half against that of the whole: less is a quantity that comes to rest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """A quantity of bytes that grows steadily with the steps."""

    bytes: float
    """Grown over the steps looked at."""
    per_step: float
    """Bytes a step."""
    per_second: float
    first: float
    """Bytes at the beginning of these steps."""
    last: float
    """Bytes at their end."""
    steps: int
    """Steps looked at."""
    trend: Trend

    def seconds_to(self, limit: float) -> float:
        """Seconds until it reaches a limit in bytes; 0 where it has."""
        return max(0.0, (limit - self.last) / self.per_second) if self.per_second > 0 else math.inf


def readings(process: Process, column: str) -> int:
    """Rows of the steady state in which a column was read."""
    return sum(math.isfinite(value) for value in steady(process).values(column))


def growth(process: Process, column: str) -> Growth | None:
    """Steady growth of a column of bytes (`allocated`, `rss`) in steady state.

    None where there are fewer than 50 steps, too few readings, or no growth that is sure, keeps on to the end
    and is not a plateau reached: warm-up, caches and lazily loaded data come to rest.
    """
    state = steady(process)
    if state.steps < LEAST_STEPS:
        return None
    indices, times = state.values("index"), state.values("t")
    values = state.values(column)
    if not values:
        return None
    skip = int(len(values) * _SETTLING)
    return grown(indices[skip:], values[skip:], times[skip:])


def grown(xs: Sequence[float], values: Sequence[float], times: Sequence[float]) -> Growth | None:
    """Steady growth of values along steps xs at seconds `times`; None as for `growth`."""
    found = trend(xs, values)
    if found is None or found.slope <= 0 or found.p > _SURE or found.rising < _RISING:
        return None
    if found.late_slope < _STILL_GROWING * found.slope:
        return None
    steps, seconds = xs[-1] - xs[0], times[-1] - times[0]
    if steps <= 0 or seconds <= 0:
        return None
    return Growth(
        bytes=found.growth,
        per_step=found.slope,
        per_second=found.growth / seconds,
        first=found.first,
        last=found.last,
        steps=int(steps) + 1,
        trend=found,
    )
