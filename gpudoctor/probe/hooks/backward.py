"""Backward passes: `Tensor.backward` goes through `torch.autograd.backward`, so one hook sees both."""

from __future__ import annotations

import sys
import threading
from time import perf_counter
from typing import TYPE_CHECKING, Any

from ..clock import BACKWARD, EVALUATION, OWNS
from ..guard import CALLER
from ..importlib_bootstrap import MISSING
from ..table import OTHER

if TYPE_CHECKING:
    from ..importlib_bootstrap import Enter, Leave
    from ..probe import Probe

HOOK = "backward"
_LIGHT = "light"
"""Token of a backward pass that is only timed."""


def install(probe: Probe) -> None:
    """Hook `torch.autograd.backward` and `torch.autograd.grad`."""
    guard, clock, steps, evaluation = probe.guard, probe.clock, probe.steps, probe.evaluation
    pace = probe.pace
    backward_begins = guard.reading("numerics", probe.numerics.backward_begins)
    backward_ended = guard.reading("numerics", probe.numerics.backward_ended)

    def begin(args: Any, kwargs: Any) -> Any:
        phase = clock.phase
        if phase == BACKWARD or (OWNS[phase] and (phase != EVALUATION or evaluation.declared)):
            return None
        pace.leave()
        evaluation.finish()
        if not steps.backwards:
            probe.show()
        backward_begins(args[0] if args else kwargs.get("tensors"))
        return clock.switch(BACKWARD)

    def end(token: Any, _result: Any, failed: bool) -> None:
        clock.switch(token)
        if not failed:
            backward_ended()
            steps.backward_ended(sys._getframe(CALLER))

    def begin_grad(_args: Any, _kwargs: Any) -> Any:
        phase = clock.phase
        return None if phase == BACKWARD or OWNS[phase] else clock.switch(BACKWARD)

    def end_grad(token: Any, _result: Any, failed: bool) -> None:
        clock.switch(token)
        if not failed:
            steps.gradients_ended(sys._getframe(CALLER))

    if not guard.wanted(HOOK):
        return
    autograd = probe.torch.autograd
    guard.install(HOOK, autograd, "backward", *_lighter(probe, *guard.ends(HOOK, begin, end)))
    guard.surround(HOOK, autograd, "grad", begin_grad, end_grad)


def _lighter(probe: Probe, watch: Enter, watched: Leave) -> tuple[Enter, Leave]:
    """`watch` and `watched`, but in light steps only the time is taken and the loss read: written out, for it
    is the training's time.
    """
    guard, clock, steps = probe.guard, probe.clock, probe.steps
    read_loss = guard.reading("numerics", probe.numerics.light_loss)
    ended = guard.safely(HOOK, steps.backward_ended)
    ident = threading.get_ident

    def enter(args: Any, kwargs: Any) -> Any:
        if clock.compiled is not None and ident() == clock.ident:
            clock.take()
        if not clock.light or clock.phase != OTHER or ident() != clock.ident:
            return watch(args, kwargs)
        read_loss(args[0] if args else kwargs.get("tensors"))
        if not clock.light:  # the loss is not finite
            return watch(args, kwargs)
        now = perf_counter()
        clock.row[OTHER] += now - clock.mark
        clock.mark = now
        clock.phase = BACKWARD
        return _LIGHT

    def leave(token: Any, result: Any) -> None:
        if token is not _LIGHT:
            watched(token, result)
            return
        failed = result is MISSING
        if failed:
            clock.passed(sys.exc_info()[1])
        clock.switch(OTHER)
        if not failed:
            ended(sys._getframe(2))

    return enter, leave
