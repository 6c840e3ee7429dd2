"""From the probe's `replay` record to a class of cause."""

from collections.abc import Mapping
from statistics import median
from typing import Any

from gpudoctor.analysis.run.curves import explosion, loss_curve, norm_curve
from gpudoctor.model.replay import Cause
from gpudoctor.model.signs.recording import Recording

GROWN = 10.0
"""Growth of weights or gradients from which on the rate is to blame (the threshold of NUM003)."""
_LOSS_GROWN = 100.0
"""Growth of the loss above its lowest before the bad step, likewise: single batches vary."""
_EMPTY = {"empty", "masked", "spread"}


def grown(record: Mapping[str, Any], recording: Recording, step: int) -> str:
    """What had grown before the bad step, as a clause; empty where nothing had."""
    weights = record.get("weights") or []
    if len(weights) == 2 and weights[0] > 0 and weights[1] >= GROWN * weights[0]:
        times = weights[1] / weights[0]
        return f"the largest weight had grown {times:.3g} times before"
    for process in recording.ranks:
        found = explosion(norm_curve(process))
        if found is not None and found[0] >= GROWN:
            return f"the norm of the gradients had grown {found[0]:.3g} times before"
        curve = loss_curve(process)
        before = [abs(value) for index, value in zip(curve.steps, curve.values, strict=True) if index < step]
        if len(before) >= 3 and before[-1] >= _LOSS_GROWN * max(median(before[: len(before) // 2 + 1]), 1e-9):
            return f"the loss had grown to {before[-1]:.3g} before"
    return ""


def cause_of(record: Mapping[str, Any], growth: str) -> Cause:
    """The class, before more digits were tried."""
    origin = record.get("origin")
    if record.get("found") == "poisoned" or not origin:
        return Cause.UNKNOWN
    kind = origin.get("kind")
    if kind in ("weights", "gradient", "buffer") or (kind in ("constant", "data") and origin.get("early")):
        return Cause.POISONED
    if kind in ("batch", "data"):
        return Cause.BAD_INPUT
    if kind == "peer":
        return Cause.PEER
    if kind == "constant":
        return Cause.CONSTANT
    return _of_operation(origin, growth)


def _of_operation(origin: Mapping[str, Any], growth: str) -> Cause:
    if origin.get("edge") in _EMPTY:
        return Cause.EMPTY
    if growth:
        return Cause.EXPLODING
    if origin.get("phase") == "optimizer":
        return Cause.OPTIMIZER
    if origin.get("wide") == "finite" or origin.get("edge") == "overflow":
        return Cause.HALF_OVERFLOW if origin.get("dtype") == "float16" else Cause.OVERFLOW
    return Cause.DOMAIN
