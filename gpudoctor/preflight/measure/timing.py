"""Repetitions within a time, and what they say: median, spread, number."""

from __future__ import annotations

import statistics
import time
from typing import Any


def repeated(once: Any, seconds: Any, least: Any = 3, most: Any = 1000) -> Any:
    """Seconds of each repetition of `once`, until the time is over; `once` may return its own seconds."""
    found: list[float] = []
    end = time.perf_counter() + seconds
    while len(found) < least or (time.perf_counter() < end and len(found) < most):
        begin = time.perf_counter()
        own = once()
        found.append(own if isinstance(own, float) else time.perf_counter() - begin)
    return found


def figure(quantity: Any, times: Any, amount: Any = None, **more: Any) -> Any:
    """A figure of the report: the median time, or `amount` by it; the spread as a share of the median."""
    values = [amount / item for item in times if item > 0] if amount is not None else list(times)
    middle = statistics.median(values)
    deviation = statistics.median(abs(item - middle) for item in values)
    spread = deviation / middle if middle else 0.0
    return dict(quantity=quantity, value=middle, spread=spread, repetitions=len(values), **more)
