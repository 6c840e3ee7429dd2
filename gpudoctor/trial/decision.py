"""What pairs prove: faster, slower, or no clear difference, looked at several times without cheating."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Literal

from gpudoctor.trial.pairs import WindowPair, stalled
from gpudoctor.trial.t_distribution import student_quantile

Verdict = Literal["faster", "slower", "no clear difference"]

SMALLEST_EFFECT = 0.02
"""Below it nobody cares, and differences between machines hide it."""
SPENT = {3: 0.005, 4: 0.005, 6: 0.009, 8: 0.012, 12: 0.016, 16: 0.022}
"""Pairs at a look, and the chance that its interval alone misses the truth.

The looks overlap, so together they miss it in 4.9 to 5.0 % of trials (simulated: 800,000 of independent normal
pairs; heavier tails less often). The early ones spend little: effects that are found so soon are large."""
LOOKS = tuple(SPENT)
"""Numbers of pairs at which a trial may stop."""


@dataclass(frozen=True, slots=True, kw_only=True)
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


def decide(
    pairs: Sequence[WindowPair], *, smallest: float = SMALLEST_EFFECT, looks: Sequence[int] = LOOKS
) -> Decision:
    """Judge the pairs so far. Raises `ValueError` for less than two.

    Student's t on the logarithms of the ratios: pairs are back to back, so what slows both cancels, and a
    mean of logs treats `twice as fast` and `twice as slow` alike. Between looks the verdict stays open.
    """
    if len(pairs) < 2:
        raise ValueError(f"an interval needs two pairs, not {len(pairs)}")
    spoiled = stalled(pairs)
    logs = [math.log(pair.ratio) for pair, bad in zip(pairs, spoiled, strict=True) if not bad]
    middle = fmean(logs)
    t = student_quantile(1 - _chance(len(pairs)) / 2, len(logs) - 1)
    half = t * stdev(logs) / math.sqrt(len(logs))
    low, high = middle - half, middle + half
    edge = math.log1p(smallest)
    verdict: Verdict = "no clear difference"
    looking = len(pairs) in looks or len(pairs) > looks[-1]
    if looking:
        verdict = "faster" if low > edge else "slower" if high < -edge else verdict
    settled = looking and (verdict != "no clear difference" or (high < edge and low > -edge))
    return Decision(
        ratio=math.exp(middle),
        low=_exp(low),
        high=_exp(high),
        pairs=len(logs),
        aside=tuple(index for index, bad in enumerate(spoiled) if bad),
        verdict=verdict,
        final=settled or len(pairs) >= looks[-1],
    )


def _chance(pairs: int) -> float:
    """What a look at so many pairs may spend; one that comes early, as the time is up, has the next one's."""
    return next((chance for look, chance in SPENT.items() if look >= pairs), SPENT[LOOKS[-1]])


def _exp(value: float) -> float:
    return math.exp(min(value, 700.0))


def next_look(pairs: int, looks: Sequence[int] = LOOKS) -> int:
    """How many pairs there must be before the next judgement."""
    return next((look for look in looks if look > pairs), pairs)
