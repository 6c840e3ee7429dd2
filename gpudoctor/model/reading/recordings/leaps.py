"""Trainings that run away in their first steps, before a curve has enough readings to show a growth."""

from gpudoctor.model.reading.recordings.curves import Curve, loss_curve, norm_curve, numerics, step_of
from gpudoctor.model.signs.recording import Process

_NEAR = 2
"""Steps before the bad one in which a reading tells of it."""
_FEW = 8
"""Readings from which on a curve shows its growth by itself (curves.explosion)."""


def ran_away(process: Process, step: int, grown: float, moved: float) -> str:
    """Why the rate is to blame for what is no number at an early step, as a clause; "" where nothing says so.

    `grown`: factor by which the loss or the gradients' norm rose over the few steps before. `moved`: length of
    one update of plain SGD, its rate times the norm.
    """
    for name, curve in (("the loss", loss_curve(process)), ("the norm of the gradients", norm_curve(process))):
        before = _before(curve, step)
        if 2 <= len(before) < _FEW and before[-1] >= grown * before[0] > 0:
            return f"{name} had grown {before[-1] / before[0]:.3g} times in the few steps before"
    update = _update(process, step)
    if update is None or update[0] * update[1] < moved:
        return ""
    rate, norm = update
    return (
        f"the update before it moved the weights by {rate * norm:.2g}: "
        f"a rate of {rate:.2g} times a gradient of norm {norm:.2g}"
    )


def _before(curve: Curve, step: int) -> list[float]:
    return [value for at, value in zip(curve.steps, curve.values, strict=True) if at < step]


def _update(process: Process, step: int) -> tuple[float, float] | None:
    """Rate of plain SGD and norm of the gradients, as it got them, in an update just before a step."""
    made = process.last("optimizer")
    rate = made.get("lr") if made is not None and made.get("name") == "SGD" else None
    norms = [
        item.get("norm") for item in numerics(process, "norms") if step - _NEAR <= step_of(item) < step
    ]  # ours, read after any clipping
    if not isinstance(rate, int | float) or not norms or not isinstance(norms[-1], int | float):
        return None
    return float(rate), float(norms[-1])
