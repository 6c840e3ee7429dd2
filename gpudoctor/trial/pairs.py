"""Pairs of bounded runs, back to back in balanced order, and which of them a stall has spoiled."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

STALL_FLOOR = 0.10
"""A window has stalled only if it is at least this much slower than its arm's median."""
STALL_SPREADS = 5.0
"""... and at least so many robust standard deviations (1.4826 x MAD) of its arm."""
MOST_ASIDE = 0.25
"""Never more than this share of the pairs is set aside: what happens so often is no accident."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowPair:
    """Two windows measured one right after the other; seconds a step, each the median of its window."""

    baseline: float
    candidate: float
    candidate_first: bool = False

    @property
    def ratio(self) -> float:
        """Above 1 where the candidate is faster."""
        return self.baseline / self.candidate


def candidate_goes_first(index: int) -> bool:
    """Order of pair `index`: AB BA BA AB, and again, which cancels linear drift."""
    return index % 4 in (1, 2)


def stalled(pairs: Sequence[WindowPair]) -> list[bool]:
    """Which pairs hold a window that something outside slowed down.

    The rule looks at each arm alone and only upwards, so it treats both arms alike and never asks which way
    a pair points. It needs four pairs.
    """
    if len(pairs) < 4:
        return [False] * len(pairs)
    arms = _excess([p.baseline for p in pairs]), _excess([p.candidate for p in pairs])
    excess = [max(a, b) for a, b in zip(*arms, strict=True)]
    worst = sorted((value for value in excess if value > 0), reverse=True)[: int(MOST_ASIDE * len(pairs))]
    return [value > 0 and value in worst for value in excess]


def _excess(seconds: Sequence[float]) -> list[float]:
    """By how much (log) each window exceeds what is normal in its arm; 0 within it."""
    logs = [math.log(value) for value in seconds]
    middle = median(logs)
    spread = 1.4826 * median(abs(value - middle) for value in logs)
    limit = max(math.log1p(STALL_FLOOR), STALL_SPREADS * spread)
    return [max(0.0, value - middle - limit) for value in logs]
