"""What had grown before a loss or a gradient that is no number: over the whole run, or in its last readings."""

from collections.abc import Sequence
from statistics import median

from gpudoctor.analysis import of_run
from gpudoctor.lang import say
from gpudoctor.text import figure

_FEW = 8
"""Readings from which on a curve has a usual value to compare its last ones with."""
_LAST = 3
"""Readings just before the bad step: a run that explodes does so within a few steps, however long it is."""


def grew(process: "of_run.Process", step: int, grown: float) -> str:
    """What had grown before a step whose loss or gradient is no number, as a clause; "" where nothing had.

    `grown`: factor by which the loss or the gradients' norm rose, over the run or in its last readings.
    """
    for name, curve in (
        (say("the norm of the gradients"), of_run.norm_curve(process)),
        (say("the loss"), of_run.loss_curve(process)),
    ):
        before = _before(curve, step)
        whole = of_run.explosion(before)
        if whole is not None and whole[0] >= grown:
            return say("{name} had grown {whole} times before", name=name, whole=figure(whole[0]))
        times = _sudden(before.values)
        if times >= grown:
            return say("{name} had grown {times} times in the few steps before", name=name, times=figure(times))
    return ""


def _sudden(values: Sequence[float]) -> float:
    """How far the last reading is above the usual one before it; 0 where there is nothing to compare with."""
    usual = median(values[:-_LAST]) if len(values) >= _FEW else values[0] if len(values) > 1 else 0.0
    # Once nearly everything is learned, a hard batch has many times the usual loss, and is no growth.
    return values[-1] / usual if usual > 0 and values[-1] >= median(values[:5]) else 0.0


def _before(curve: "of_run.Curve", step: int) -> "of_run.Curve":
    kept = [(at, value) for at, value in zip(curve.steps, curve.values, strict=True) if at < step]
    return of_run.Curve(steps=tuple(at for at, _ in kept), values=tuple(value for _, value in kept))
