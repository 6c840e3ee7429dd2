"""Axes: round numbers for ticks, and numbers as text in the unit of their quantity."""

import math
from collections.abc import Callable, Sequence

from gpudoctor.text import duration, number, percent, size

_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
_BINARY = 1024.0


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


def time_ticks(high: float, count: int = 6) -> list[float]:
    """Round seconds, minutes or hours from 0 up to `high`."""
    for step in (
        0.1,
        0.2,
        0.5,
        1,
        2,
        5,
        10,
        15,
        30,
        60,
        120,
        300,
        600,
        900,
        1800,
        3600,
        7200,
        14400,
        21600,
        43200,
    ):
        if high / step <= count:
            return [number * step for number in range(int(high / step) + 1)]
    return [number * 86400.0 for number in range(int(high / 86400) + 1)]


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
