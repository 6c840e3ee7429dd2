"""The loss gate: whether a change that made the training faster has moved what it learns."""

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Literal

Loss = Literal["identical", "within tolerance", "moved", "unknown"]

TOLERANCE = 0.01
"""Relative difference of smoothed losses that rounding may cause (bf16 keeps 8 bits: 0.4 % an operation)."""
SPREAD_FACTOR = 3.0
"""Repeats of the baseline that differ widen the tolerance to so many times their largest difference."""
WINDOW = 5
"""Steps averaged before losses are compared: single batches are noisier than what a change does."""
FEWEST = 3
"""Fewer common steps say nothing."""


def judge_losses(baselines: Sequence[Mapping[int, float]], candidates: Sequence[Mapping[int, float]]) -> Loss:
    """Compare curves (step to loss) of repeated runs with the same seeds, aligned by step."""
    pairs = [(a, b) for a in baselines for b in candidates if len(a.keys() & b.keys()) >= FEWEST]
    if not pairs:
        return "unknown"
    if all(_same(a, b) for a, b in pairs):
        return "identical"
    repeats = [_distance(a, b) for i, a in enumerate(baselines) for b in baselines[:i]]
    allowed = max([TOLERANCE, *(SPREAD_FACTOR * value for value in repeats if value == value)])
    worst = max(_distance(a, b) for a, b in pairs)
    return "within tolerance" if worst <= allowed else "moved"


def _same(a: Mapping[int, float], b: Mapping[int, float]) -> bool:
    common = a.keys() & b.keys()
    return all(a[step] == b[step] or (a[step] != a[step] and b[step] != b[step]) for step in common)


def _distance(a: Mapping[int, float], b: Mapping[int, float]) -> float:
    """Largest relative difference of the smoothed curves; infinite where only one of them is not a number."""
    steps = sorted(a.keys() & b.keys())
    worst = 0.0
    for at in range(max(1, len(steps) - WINDOW + 1)):
        chunk = steps[at : at + WINDOW]
        one, two = fmean(a[step] for step in chunk), fmean(b[step] for step in chunk)
        if (one == one) != (two == two):
            return float("inf")
        scale = max(abs(one), abs(two))
        if one == one and scale > 0:
            worst = max(worst, abs(one - two) / scale)
    return worst
