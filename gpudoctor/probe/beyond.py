"""Which labels or indices a loss or an embedding was given, when it died of one that it does not have.

Values are read where they lie in the host's memory; of what lies on a device only the shape is asked.
"""

from __future__ import annotations

import os
from types import TracebackType
from typing import TYPE_CHECKING, Any

from .interrupts import interrupts

if TYPE_CHECKING:
    from .probe import Probe

_FILE = os.path.join("torch", "nn", "functional.py")
_WORDS = ("is out of bounds", "index out of range in self", "device-side assert")


def beyond(probe: Probe, error: BaseException) -> dict[str, Any] | None:
    """`what` (`label`, `index`), `least` and `most` of them, and the `count` that there is; None for others."""
    text = str(error)
    if not any(word in text for word in _WORDS):
        return None
    try:
        found = _in_frames(probe.torch, error.__traceback__)
        return found if found is not None else probe.numerics.losses.beyond()
    except Exception as failed:
        if interrupts(failed):
            raise
        return None


def _in_frames(torch: Any, trace: TracebackType | None) -> dict[str, Any] | None:
    """What the innermost call of torch's that takes labels or indices was given."""
    found = None
    while trace is not None:
        code = trace.tb_frame.f_code
        if code.co_filename.endswith(_FILE):
            given = trace.tb_frame.f_locals
            if code.co_name in ("cross_entropy", "nll_loss"):
                found = _labels(torch, given)
            elif code.co_name == "embedding":
                found = _row(torch, "index", given.get("input"), given["weight"].shape[0])
        trace = trace.tb_next
    return found


def _labels(torch: Any, given: dict[str, Any]) -> dict[str, Any] | None:
    logits: Any = given["input"]
    labels: Any = given.get("target")
    if type(labels) is torch.Tensor and labels.is_cpu:
        labels = labels[labels != given.get("ignore_index", -100)]
    return _row(torch, "label", labels, logits.shape[1 if logits.dim() > 1 else 0])


def _row(torch: Any, what: str, values: Any, count: int) -> dict[str, Any] | None:
    if type(values) is not torch.Tensor or not values.is_cpu or values.is_floating_point():
        return None
    return told(what, int(values.min()), int(values.max()), int(count)) if values.numel() else None


def told(what: str, least: int, most: int, count: int) -> dict[str, Any] | None:
    """The fields, where one really lies outside."""
    if least >= 0 and most < count:
        return None
    return {"what": what, "least": least, "most": most, "count": count}
