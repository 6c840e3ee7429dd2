"""Axes: round numbers for ticks, numbers in the unit of their quantity, steps to the right."""

import math
from bisect import bisect_left
from collections.abc import Callable

from gpudoctor.model.records import frozen
from gpudoctor.model.run import RunSeries, RunSummary
from gpudoctor.text import duration, number, percent, size

_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
_BINARY = 1024.0


def ticks(low: float, high: float, count: int = 5, *, binary: bool = False) -> list[float]:
    """About `count` round numbers from at most `low` to at least `high`; powers of 1,024 for bytes."""
    if not (math.isfinite(low) and math.isfinite(high)) or high <= low:
        high = low + (abs(low) or 1.0)
    scale = _BINARY ** max(0, math.floor(math.log(max(abs(high), 1.0), _BINARY))) if binary else 1.0
    raw = (high - low) / scale / count
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(step * power for step in _STEPS if step * power >= raw * (1 - 1e-9)) * scale
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [number * step for number in range(first, max(last, first + 1) + 1)]


def formatter(unit: str) -> Callable[[float], str]:
    """How values of a unit are written at an axis."""
    known: dict[str, Callable[[float], str]] = {"s": duration, "B": size, "1": percent}
    if unit == "B/s":
        return lambda value: f"{size(value)}/s"
    if unit == "W":
        return lambda value: f"{number(round(value, 1))} W"
    return known.get(unit, lambda value: f"{value:.4g}")


@frozen
class RunAxis:
    """What stands to the right: the steps of the run."""

    high: float
    clock: tuple[float, ...] = ()
    """Seconds of the first rank's points, beside `numbers`."""
    numbers: tuple[float, ...] = ()
    """Numbers of the steps that ended there."""

    def places(self, series: RunSeries) -> tuple[float, ...]:
        """Where the points of a series are on it; NaN for a point that it does not reach."""
        return series.steps or tuple(map(self._step_at, series.t))

    def _step_at(self, t: float) -> float:
        """The step, with its fraction, that was made at a moment; NaN before the first and after the last."""
        if not self.clock or not self.clock[0] <= t <= self.clock[-1]:
            return math.nan
        after = bisect_left(self.clock, t)
        if after == 0:
            return self.numbers[0]
        width = self.clock[after] - self.clock[after - 1]
        share = (t - self.clock[after - 1]) / width if width > 0 else 1.0
        return self.numbers[after - 1] + share * (self.numbers[after] - self.numbers[after - 1])

    def marks(self) -> list[tuple[float, str]]:
        """Ticks with their words."""
        found = [mark for mark in ticks(0.0, self.high, 6) if mark <= self.high]
        return [(mark, f"{mark:,.0f}") for mark in found if mark == round(mark)]


def run_axis(run: RunSummary) -> RunAxis | None:
    """The steps; None where fewer than two were recorded."""
    lead = next((series for series in run.series if series.name == "step_seconds"), None)
    if lead is None or len(lead.steps) < 2:
        return None
    most = max(series.steps[-1] for series in run.series if series.steps)
    return RunAxis(high=most, clock=lead.t, numbers=lead.steps)
