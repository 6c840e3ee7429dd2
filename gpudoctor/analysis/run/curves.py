"""The curves of a training: its loss, the norms of its gradients, what the probe read of its weights."""

import math
from bisect import bisect_right
from statistics import median

from gpudoctor.analysis.memo import once
from gpudoctor.analysis.run.trends import Trend, trend
from gpudoctor.lang import say
from gpudoctor.model.records import frozen
from gpudoctor.model.signs.recording import Process, Record, Recording

_NEAR = 20
"""Readings that a running median stands on."""
_CALM = 20
"""Finite losses after one that was not, by which the weights are known to be numbers still."""


@frozen
class Curve:
    """A quantity along the steps."""

    steps: tuple[int, ...]
    values: tuple[float, ...]
    """Finite ones only."""

    def __len__(self) -> int:
        return len(self.steps)

    @property
    def early(self) -> float:
        """Median of the first readings: a twentieth of them, five at least."""
        return median(self.values[: max(5, len(self) // 20)])

    @property
    def late(self) -> float:
        """Median of the last tenth, five at least."""
        return median(self.values[-max(5, len(self) // 10) :])

    @property
    def best(self) -> float:
        """The lowest running median."""
        width = max(5, min(_NEAR, len(self) // 10))
        return min(median(self.values[i : i + width]) for i in range(max(1, len(self) - width + 1)))

    def trend(self) -> Trend | None:
        """Its robust trend along the steps."""
        return trend(self.steps, self.values)


def numerics(process: Process, kind: str) -> tuple[Record, ...]:
    """Readings of one kind, in order."""
    return tuple(item for item in process.of("numeric") if item.get("kind") == kind)


def of_first_rank(recording: Recording, kind: str) -> tuple[Record, ...]:
    """Readings of one kind of the first rank; none where there is no rank."""
    return numerics(recording.ranks[0], kind) if recording.ranks else ()


def newest(process: Process, kind: str) -> tuple[Record, ...]:
    """Readings of one kind that were written down last, together: the earlier ones were for a sudden end."""
    found = numerics(process, kind)
    last = max((int(item.get("step") or 0) for item in found), default=0)
    return tuple(item for item in found if int(item.get("step") or 0) == last)


def names(record: Record, most: int = 3) -> str:
    """The parameters that a reading names, the first few of them."""
    found = [str(name) for name in record.get("parameters") or ()]
    more = say(" and {found} more", found=len(found) - most) if len(found) > most else ""
    return ", ".join(found[:most]) + more


@once
def loss_curve(process: Process) -> Curve:
    """The loss by step, where it was seen."""
    return _curve(process, "loss")


@once
def norm_curve(process: Process) -> Curve:
    """The norm of all gradients by step: the column, or the readings where there is none.

    A reading of a gradient that is spread over ranks is of this rank's part: no norm of the whole.
    """
    found = _curve(process, "grad_norm")
    if len(found):
        return found
    readings = [
        (int(item.get("step") or 0), float(item.get("norm")))
        for item in numerics(process, "norms")
        if isinstance(item.get("norm"), int | float) and math.isfinite(item.get("norm")) and not item.get("shards")
    ]
    return Curve(steps=tuple(step for step, _ in readings), values=tuple(norm for _, norm in readings))


def _curve(process: Process, column: str) -> Curve:
    values, indices = process.steps.column(column), process.steps.column("index")
    known = [(int(i), value) for i, value in zip(indices, values, strict=False) if math.isfinite(value)]
    return Curve(steps=tuple(i for i, _ in known), values=tuple(value for _, value in known))


def explosion(curve: Curve, several: bool = False) -> tuple[float, float] | None:
    """How far the norms have grown: the late median over the median of the first half, and the late median.

    None for fewer than eight readings. One spike moves neither, and readings of zero do not count. Norms of
    several optimizers are of several sizes, and a median may be of the smaller ones: of the first half their
    upper quartile counts.
    """
    values = [value for value in curve.values if value > 0]  # where optimizers take turns, every other one is zero
    if len(curve) < 8:
        return None
    if len(values) < 8:
        return 1.0, median(values) if values else 0.0
    first = sorted(values[: max(4, len(values) // 2)])
    usual = first[len(first) * 3 // 4] if several else median(first)
    late = median(values[-max(3, len(values) // 8) :])
    return late / usual, late


def spikes(curve: Curve, times: float, of_start: float = 0.0) -> list[int]:
    """Steps whose value towers over the running median before it by so many times.

    It must reach this part of the value at the start, too: once nearly everything is learned, one hard batch
    has a hundred times the usual loss, and is no jump.
    """
    found: list[int] = []
    least = of_start * max(curve.early, median(curve.values[:5])) if len(curve) else 0.0
    for i in range(_NEAR, len(curve)):
        usual = median(curve.values[i - _NEAR : i])
        if usual > 0 and curve.values[i] > max(times * usual, least):
            found.append(curve.steps[i])
    return found


def diverges(curve: Curve) -> bool:
    """Whether a loss ends far above where it was: above its start and above twice its best, not by a spike.

    Judged on losses that are positive throughout; a policy's loss and a likelihood with no floor go where
    they like.
    """
    if len(curve) < 30 or min(curve.values) <= 0:
        return False
    return curve.late > 1.2 * curve.early and curve.late > 2.0 * curve.best


def stalls(curve: Curve, least: int = 500) -> bool:
    """Whether a loss has neither fallen nor risen over its steps: less than 1 % and no significant trend."""
    if len(curve) < least or min(curve.values) <= 0:
        return False
    found = curve.trend()
    return found is not None and found.p > 0.05 and abs(found.growth) < 0.01 * abs(median(curve.values))


def first_bad(process: Process, kind: str) -> Record | None:
    """The first reading of NaN or infinity (`nan-loss`, `nan-gradients`) that reached the weights."""
    found = sorted(numerics(process, kind), key=step_of)
    return next((item for item in found if not skipped(process, item) and not came_back(process, item)), None)


def step_of(record: Record) -> int:
    """The step that a reading is of."""
    return int(record.get("step") or 0)


def skipped(process: Process, bad: Record) -> bool:
    """Whether a loss scaler left the step of a bad reading out: its scale fell at once.

    The scale is set after the step, which may have ended by then.
    """
    return not {step_of(bad), step_of(bad) + 1}.isdisjoint(_falls(process))


def came_back(process: Process, bad: Record) -> bool:
    """Whether a loss that was no number did not reach the weights: no gradient did, later losses are fine."""
    if bad.get("kind") != "nan-loss":
        return False
    seen = loss_curve(process).steps
    later = len(seen) - bisect_right(seen, step_of(bad))
    indices = process.steps.column("index")
    if later < _CALM or not len(indices) or seen[-1] < indices[-1]:
        return False
    return all(skipped(process, item) for item in numerics(process, "nan-gradients"))


@once
def _falls(process: Process) -> frozenset[int]:
    """Steps at which the scale of a loss scaler was lowered."""
    told = [
        (step_of(item), item.get("scale"), item.get("skipped") or 0)
        for item in numerics(process, "scaler")
        if item.get("scale") is not None
    ]
    indices, scales = process.steps.column("index"), process.steps.column("scale")
    rows = [(int(i), scale, 0) for i, scale in zip(indices, scales, strict=False) if math.isfinite(scale)]
    found = set()
    for readings in (told, rows):
        before: tuple[float | None, int] = (None, 0)
        for step, scale, count in readings:
            if (before[0] is not None and scale < before[0]) or count > before[1]:
                found.add(step)
            before = (scale, count)
    return frozenset(found)
