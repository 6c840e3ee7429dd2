"""Robust trends: the slope of Theil and Sen, the test of Mann and Kendall.

Both stand on pairs, so one wild value moves neither. Series are cut into a few dozen bins first: pairs are then
few, and neighbours that resemble each other (a memory reading hardly changes in a step) do not pose as many
independent witnesses.
"""

import math
from collections.abc import Sequence
from itertools import accumulate, pairwise
from statistics import median

from gpudoctor.model.records import frozen

BINS = 32
"""Bins of a series: 496 pairs, and a p-value of 1e-9 for a series that only rises."""

_DEEP = 0.5
"""Share of its whole range by which a quantity falls at the end of an epoch."""


@frozen
class Trend:
    """How a quantity goes along another one."""

    slope: float
    """Units a unit of x."""
    first: float
    """Fitted value at the first x."""
    last: float
    """Fitted value at the last x."""
    rising: float
    """Kendall's tau, -1..1: 1 where every later bin is above every earlier one."""
    p: float
    """Two-sided probability of so clear an order by chance, ties counted."""
    late_slope: float
    """Slope of the second half alone: near 0 where the quantity has come to rest."""

    @property
    def growth(self) -> float:
        """Change over the whole range."""
        return self.last - self.first


def trend(xs: Sequence[float], ys: Sequence[float]) -> Trend | None:
    """The trend of y along x (rising); None for fewer than eight known values.

    Values that are not finite are left out.
    """
    if not (all(map(math.isfinite, ys)) and all(map(math.isfinite, xs))):
        known = [(x, y) for x, y in zip(xs, ys, strict=True) if math.isfinite(x) and math.isfinite(y)]
        xs, ys = [x for x, _ in known], [y for _, y in known]
    if len(ys) < 8:
        return None
    binned = _bins(xs, ys)
    slope = theil_sen(binned)
    centre = median(y - slope * x for x, y in binned)
    middle = len(binned) // 2
    tau, p = mann_kendall([y for _, y in binned])
    return Trend(
        slope=slope,
        first=centre + slope * xs[0],
        last=centre + slope * xs[-1],
        rising=tau,
        p=p,
        late_slope=theil_sen(binned[middle:]),
    )


def _bins(xs: Sequence[float], ys: Sequence[float]) -> list[tuple[float, float]]:
    """Medians of equally filled bins."""
    count = min(BINS, len(ys))
    edges = [round(i * len(ys) / count) for i in range(count + 1)]
    return [(median(xs[a:b]), median(ys[a:b])) for a, b in pairwise(edges)]


def kept_level(values: Sequence[float]) -> list[float]:
    """What a quantity never falls below again: one that falls back at the end of each epoch does not grow.

    The last rise has not fallen back yet. If it only regains what the fall before it gave back, its level is that
    from which it began: where an epoch ends next, it will fall again.
    """
    known = [value if math.isfinite(value) else math.inf for value in reversed(values)]
    lowest = [*accumulate(known, min)][::-1]
    finite = [*filter(math.isfinite, values)]
    deep = _DEEP * (max(finite) - min(finite)) if finite else 0.0
    falls = [at for at, value in enumerate(values) if value - lowest[at] > deep]
    if falls:
        last = falls[-1]
        before = max(filter(math.isfinite, values[: last + 1]))
        # A fall that a later rise outgrows was no end of an epoch: a cache was
        # emptied, or a file was closed, and the growth went on.
        if max(finite) - before < _DEEP * deep:
            lowest = [min(low, lowest[last]) for low in lowest]
    return [low if math.isfinite(value) else value for low, value in zip(lowest, values, strict=True)]


def theil_sen(points: Sequence[tuple[float, float]]) -> float:
    """The median of the slopes of all pairs; 0 for fewer than two different x."""
    slopes = [
        (later[1] - earlier[1]) / (later[0] - earlier[0])
        for i, earlier in enumerate(points)
        for later in points[i + 1 :]
        if later[0] != earlier[0]
    ]
    return median(slopes) if slopes else 0.0


def mann_kendall(values: Sequence[float]) -> tuple[float, float]:
    """Kendall's tau against time, and its two-sided p-value by the normal approximation with ties."""
    n = len(values)
    pairs = n * (n - 1) // 2
    if pairs == 0:
        return 0.0, 1.0
    score = sum((later > earlier) - (later < earlier) for i, earlier in enumerate(values) for later in values[i + 1 :])
    groups: dict[float, int] = {}
    for value in values:
        groups[value] = groups.get(value, 0) + 1
    tied = sum(t * (t - 1) * (2 * t + 5) for t in groups.values())
    variance = (n * (n - 1) * (2 * n + 5) - tied) / 18
    if variance <= 0:
        return 0.0, 1.0
    z = (score - math.copysign(1, score)) / math.sqrt(variance) if score else 0.0
    return score / pairs, math.erfc(abs(z) / math.sqrt(2))


def above_zero(values: Sequence[float]) -> float:
    """One-sided probability of such values if they centred on 0 (Wilcoxon signed rank, normal form)."""
    known = [value for value in values if math.isfinite(value) and value != 0]
    n = len(known)
    if n < 10:
        return 1.0
    order = sorted(range(n), key=lambda i: abs(known[i]))
    positive = math.fsum(rank for rank, i in enumerate(order, start=1) if known[i] > 0)
    mean, variance = n * (n + 1) / 4, n * (n + 1) * (2 * n + 1) / 24
    return 0.5 * math.erfc((positive - mean) / math.sqrt(2 * variance))
