"""Axes: round numbers for ticks, numbers in the unit of their quantity, steps or seconds to the right."""

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gpudoctor.lang import tr
from gpudoctor.model.run import RunSeries, RunSummary
from gpudoctor.text import duration, number, percent, size

_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
_BINARY = 1024.0
_CLOCK = (0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200)
_DECADES = 4
"""From so many powers of ten on, only they are named."""


def ticks(low: float, high: float, count: int = 5, *, binary: bool = False) -> list[float]:
    """About `count` round numbers from at most `low` to at least `high`; powers of 1,024 for bytes."""
    if not (math.isfinite(low) and math.isfinite(high)) or high <= low:
        high = low + (abs(low) or 1.0)
    scale = 1.0
    if binary:
        scale = _BINARY ** max(0, math.floor(math.log(max(abs(high), 1.0), _BINARY)))
    step = _round_step((high - low) / scale / max(1, count)) * scale
    first = math.floor(low / step + 1e-9)
    last = math.ceil(high / step - 1e-9)
    return [number * step for number in range(first, max(last, first + 1) + 1)]


def time_ticks(high: float) -> list[float]:
    """Round seconds, minutes or hours from 0 up to `high`."""
    for step in _CLOCK:
        if high / step <= 6:
            return [number * step for number in range(int(high / step) + 1)]
    return [number * 86400.0 for number in range(int(high / 86400) + 1)]


def log_ticks(low: float, high: float) -> list[float]:
    """1, 2, 5, 10, 20... around positive numbers; powers of ten alone where there are many."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    if last - first > _DECADES:
        stride = max(1, (last - first) // 6)
        return [10.0**power for power in range(first, last + stride, stride)]
    marks = [digit * 10.0**power for power in range(first, last + 1) for digit in (1, 2, 5)]
    below = [mark for mark in marks if mark <= low * (1 + 1e-9)]
    above = [mark for mark in marks if mark >= high * (1 - 1e-9)]
    return [mark for mark in marks if below[-1] <= mark <= above[0]]


def formatter(unit: str) -> Callable[[float], str]:
    """How values of a unit are written at an axis."""
    if unit == "s":
        return duration
    if unit == "B":
        return size
    if unit == "B/s":
        return lambda value: f"{size(value)}/s"
    if unit == "1":
        return percent
    if unit in ("W", "Cel"):
        return lambda value: f"{number(round(value, 1))} {'°C' if unit == 'Cel' else unit}"
    return lambda value: f"{value:.4g}"


def extent(values: Sequence[float], *, from_zero: bool) -> tuple[float, float]:
    """Lowest and highest known value; from 0 where the eye compares heights."""
    known = [value for value in values if math.isfinite(value)]
    if not known:
        return 0.0, 1.0
    low, high = min(known), max(known)
    if from_zero:
        return min(0.0, low), max(high, 0.0) or 1.0
    return (low - 0.5, high + 0.5) if low == high else (low, high)


def _round_step(raw: float) -> float:
    """The smallest round number that is not below `raw`."""
    if raw <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(raw))
    return next(step * power for step in _STEPS if step * power >= raw * (1 - 1e-9))


@dataclass(frozen=True, slots=True, kw_only=True)
class RunAxis:
    """What stands to the right: steps, or seconds since the command began."""

    kind: str
    """`step` or `time`; a class of the style sheet is made of it."""
    low: float
    high: float
    clock: tuple[float, ...] = ()
    """Seconds of the first rank's points, beside `numbers`."""
    numbers: tuple[float, ...] = ()
    """Numbers of the steps that ended there."""

    @property
    def title(self) -> str:
        """What is written under it."""
        return tr("step") if self.kind == "step" else tr("time since the command began")

    def places(self, series: RunSeries) -> tuple[float, ...]:
        """Where the points of a series are on it; NaN for a point that it does not reach."""
        if self.kind == "time":
            return series.t
        return series.steps or tuple(self.step_at(t) for t in series.t)

    def step_at(self, t: float) -> float:
        """The step, with its fraction, that was made at a moment; NaN before the first and after the last."""
        if not self.clock or not self.clock[0] <= t <= self.clock[-1]:
            return math.nan
        return _between(self.clock, self.numbers, t)

    def place_of_step(self, step: float) -> float:
        """Where a step is on it; NaN where that is not known."""
        if self.kind == "step":
            return step
        return _between(self.numbers, self.clock, step) if self.numbers else math.nan

    def marks(self) -> list[tuple[float, str]]:
        """Ticks with their words."""
        if self.kind == "time":
            return [(self.low + t, duration(t)) for t in time_ticks(self.high - self.low)]
        found = [mark for mark in ticks(self.low, self.high, 6) if self.low <= mark <= self.high]
        return [(mark, f"{mark:,.0f}") for mark in found if mark == round(mark)]

    def words(self, place: float) -> str:
        """A place on it in words: `step 120`, `at 12 s`."""
        if self.kind == "step":
            return tr("step {step:,.0f}", step=place)
        return tr("at {time}", time=duration(place - self.low))


def run_axes(run: RunSummary) -> list[RunAxis]:
    """Steps first, where there are some; then time. Empty without a series."""
    lead = next((series for series in run.series if series.name == "step_seconds"), None)
    ends = [series.t[-1] for series in run.series if series.t]
    if not ends:
        return []
    clock, numbers = (lead.t, lead.steps) if lead is not None else ((), ())
    low = min(0.0, *(series.t[0] for series in run.series if series.t))
    found = [RunAxis(kind="time", low=low, high=max(ends), clock=clock, numbers=numbers)]
    if len(numbers) > 1:
        most = max(series.steps[-1] for series in run.series if series.steps)
        found.insert(0, RunAxis(kind="step", low=0.0, high=most, clock=clock, numbers=numbers))
    return found


def _between(xs: Sequence[float], ys: Sequence[float], x: float) -> float:
    """Linear between two points; the ends beyond them."""
    place = bisect_left(xs, x)
    if place == 0:
        return ys[0]
    if place >= len(xs):
        return ys[-1]
    width = xs[place] - xs[place - 1]
    share = (x - xs[place - 1]) / width if width > 0 else 1.0
    return ys[place - 1] + share * (ys[place] - ys[place - 1])
