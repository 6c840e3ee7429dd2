"""The phase that a stack shows, for untimed steps, in which no hook says it."""

from __future__ import annotations

import os
from types import CodeType, FrameType

from .clock import BACKWARD, DATA_WAIT, FORWARD, OPTIMIZER
from .table import OTHER

_DEPTH = 200
_PLACES = (
    (os.path.join("torch", "autograd", ""), BACKWARD),
    (os.path.join("torch", "optim", ""), OPTIMIZER),
    (os.path.join("torch", "nn", "utils", "clip_grad.py"), OPTIMIZER),
    (os.path.join("torch", "utils", "data", ""), DATA_WAIT),
    (os.path.join("torch", "nn", "modules", "module.py"), FORWARD),
)
"""Parts of paths, and the phase of a function in such a file."""
_known: dict[CodeType, int] = {}


def phase_of_error(error: BaseException) -> int:
    """The innermost phase that an exception came through."""
    found = OTHER
    at = error.__traceback__
    while at is not None and found != DATA_WAIT:
        phase = _phase(at.tb_frame.f_code)
        found = found if phase == OTHER else phase
        at = at.tb_next
    return found


def phase_of(frame: FrameType | None) -> int:
    """The innermost phase on a stack; a loader owns what happens inside it. `OTHER` where there is none."""
    found = OTHER
    for _ in range(_DEPTH):
        if frame is None:
            break
        phase = _phase(frame.f_code)
        if phase == DATA_WAIT:
            return phase
        if found == OTHER:
            found = phase
        frame = frame.f_back
    return found


def _phase(code: CodeType) -> int:
    phase = _known.get(code)
    if phase is None:
        phase = _known[code] = _judge(code)
    return phase


def _judge(code: CodeType) -> int:
    if code.co_name in ("decorate_context", "__enter__", "__exit__"):  # `no_grad` and its kin live in autograd
        return OTHER
    return next((phase for part, phase in _PLACES if part in code.co_filename), OTHER)
