"""What pairs prove: faster, slower, or no clear difference, looked at several times without cheating."""

import math
from collections.abc import Sequence
from functools import cache
from statistics import fmean, median, stdev
from typing import Literal

# Student's t for whole degrees of freedom, in closed form (Abramowitz & Stegun 26.7.3 and 26.7.4).
from gpudoctor.model.records import frozen


def student_cdf(t: float, degrees: int) -> float:
    """P(T <= t). Raises `ValueError` for less than one degree of freedom."""
    if degrees < 1:
        raise ValueError(f"degrees of freedom must be at least 1, not {degrees}")
    angle = math.atan2(t, math.sqrt(degrees))
    cosine, sine = math.cos(angle), math.sin(angle)
    even = degrees % 2 == 0
    term = total = 1.0 if even else cosine
    if degrees == 1:
        total = 0.0
    for k in range(1 if even else 2, degrees - 2, 2):
        term *= k / (k + 1) * cosine**2
        total += term
    share = sine * total if even else 2 / math.pi * (angle + sine * total)
    return 0.5 + share / 2


@cache
def student_quantile(probability: float, degrees: int) -> float:
    """The t with P(T <= t) = `probability`, by bisection to 1e-9. Raises `ValueError` outside (0, 1)."""
    if not 0 < probability < 1:
        raise ValueError(f"a probability lies between 0 and 1, not {probability}")
    if probability < 0.5:
        return -student_quantile(1 - probability, degrees)
    low, high = 0.0, 1.0
    while student_cdf(high, degrees) < probability:
        low, high = high, 2 * high
    while high - low > 1e-9 * max(1.0, high):
        middle = (low + high) / 2
        low, high = (middle, high) if student_cdf(middle, degrees) < probability else (low, middle)
    return (low + high) / 2


# Pairs of bounded runs, back to back in balanced order, and which of them a stall has spoiled.

STALL_FLOOR = 0.10
"""A window has stalled only if it is at least this much slower than its arm's median."""
STALL_SPREADS = 5.0
"""... and at least so many robust standard deviations (1.4826 x MAD) of its arm."""
MOST_ASIDE = 0.25
"""Never more than this share of the pairs is set aside: what happens so often is no accident."""


@frozen
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


Verdict = Literal["faster", "slower", "no clear difference"]

SMALLEST_EFFECT = 0.02
"""Below it nobody cares, and differences between machines hide it."""
SPENT = {3: 0.005, 4: 0.005, 6: 0.009, 8: 0.012, 12: 0.016, 16: 0.022}
"""Pairs at a look, and the chance that its interval alone misses the truth.

The looks overlap, so together they miss it in 4.9 to 5.0 % of trials (simulated: 800,000 of independent normal
pairs; heavier tails less often). The early ones spend little: effects that are found so soon are large."""
_LARGEST = 700.0
"""Of an exponent, before a float overflows."""
LOOKS = tuple(SPENT)
"""Numbers of pairs at which a trial may stop."""


@frozen
class Decision:
    """The state of a trial after some pairs."""

    ratio: float
    """Geometric mean of the pairs' ratios: baseline seconds by candidate seconds."""
    low: float
    high: float
    """Interval of the ratio, valid for all looks together at 95 %."""
    pairs: int
    """Pairs that count."""
    aside: tuple[int, ...]
    """Indices of pairs set aside as stalled."""
    verdict: Verdict
    final: bool
    """Whether more pairs would change nothing that matters, or there may be no more."""


def decide(pairs: Sequence[WindowPair], *, looks: Sequence[int] = LOOKS) -> Decision:
    """Judge the pairs so far. Raises `ValueError` for less than two.

    Student's t on the logarithms of the ratios: pairs are back to back, so what slows both cancels, and a
    mean of logs treats `twice as fast` and `twice as slow` alike. Between looks the verdict stays open.
    """
    if len(pairs) < 2:
        raise ValueError(f"an interval needs two pairs, not {len(pairs)}")
    spoiled = stalled(pairs)
    logs = [math.log(pair.ratio) for pair, bad in zip(pairs, spoiled, strict=True) if not bad]
    middle = fmean(logs)
    # A look that comes early, as the time is up, may spend what the next one has.
    chance = next((chance for look, chance in SPENT.items() if look >= len(pairs)), SPENT[LOOKS[-1]])
    t = student_quantile(1 - chance / 2, len(logs) - 1)
    half = t * stdev(logs) / math.sqrt(len(logs))
    low, high = middle - half, middle + half
    edge = math.log1p(SMALLEST_EFFECT)
    verdict: Verdict = "no clear difference"
    looking = len(pairs) in looks or len(pairs) > looks[-1]
    if looking:
        verdict = "faster" if low > edge else "slower" if high < -edge else verdict
    settled = looking and (verdict != "no clear difference" or (high < edge and low > -edge))
    return Decision(
        ratio=math.exp(middle),
        low=math.exp(min(low, _LARGEST)),
        high=math.exp(min(high, _LARGEST)),
        pairs=len(logs),
        aside=tuple(index for index, bad in enumerate(spoiled) if bad),
        verdict=verdict,
        final=settled or len(pairs) >= looks[-1],
    )
