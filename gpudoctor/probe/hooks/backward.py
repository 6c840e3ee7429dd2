"""Backward passes: `Tensor.backward` goes through `torch.autograd.backward`, so one hook sees both."""

from __future__ import annotations

import functools
import sys
import threading
from time import perf_counter
from typing import TYPE_CHECKING, Any

from ..clock import BACKWARD, EVALUATION, OWNS
from ..table import OTHER

if TYPE_CHECKING:
    from ..probe import Probe

HOOK = "backward"


def install(probe: Probe) -> None:
    """Replace `torch.autograd.backward` and `torch.autograd.grad`."""
    guard, clock, steps, evaluation = probe.guard, probe.clock, probe.steps, probe.evaluation
    pace = probe.pace
    backward_begins = guard.safely("numerics", probe.numerics.backward_begins)
    backward_ended = guard.safely("numerics", probe.numerics.backward_ended)

    def begin(args: Any, kwargs: Any) -> Any:
        phase = clock.phase
        if phase == BACKWARD or (OWNS[phase] and (phase != EVALUATION or evaluation.declared)):
            return None
        roots = args[0] if args else kwargs.get("tensors")
        pace.leave()
        evaluation.finish()
        if not steps.backwards:
            probe.show()
        backward_begins(roots)
        return clock.switch(BACKWARD)

    def end(token: Any, _result: Any, failed: bool) -> None:
        clock.switch(token)
        if not failed:
            backward_ended()
            steps.backward_ended(sys._getframe(2))

    def begin_grad(_args: Any, _kwargs: Any) -> Any:
        phase = clock.phase
        return None if phase == BACKWARD or OWNS[phase] else clock.switch(BACKWARD)

    def end_grad(token: Any, _result: Any, failed: bool) -> None:
        clock.switch(token)
        if not failed:
            steps.gradients_ended(sys._getframe(2))

    autograd = probe.torch.autograd
    guard.replace(
        HOOK,
        autograd,
        "backward",
        lambda original: _lighter(probe, original, guard.around(HOOK, original, begin, end)),
    )
    guard.replace(
        HOOK, autograd, "grad", lambda original: guard.around(HOOK, original, begin_grad, end_grad, passes=True)
    )


def _lighter(probe: Probe, original: Any, watched: Any) -> Any:
    """`watched`, but in light steps only the time is taken and the loss read: written out, for it is the
    training's time.
    """
    guard, clock, steps = probe.guard, probe.clock, probe.steps
    read_loss = guard.safely_of("numerics", probe.numerics.light_loss)
    ended = guard.safely_of(HOOK, steps.backward_ended)
    leave = probe.pace.leave
    compiling, ident = guard.compiling, threading.get_ident
    plain, item = probe.torch.Tensor, probe.torch._C.TensorBase.item

    def hooked(*args: Any, **kwargs: Any) -> Any:
        if clock.blind:
            root = args[0] if args else kwargs.get("tensors")
            if type(root) is plain:
                try:
                    clock.loss = value = item(root)
                except RuntimeError:  # more than one number
                    value = 0.0
                if value - value == 0.0:
                    return original(*args, **kwargs)
                leave()
                return watched(*args, **kwargs)
        if not clock.light or clock.phase != OTHER or compiling() or ident() != clock.ident:
            return watched(*args, **kwargs)
        read_loss(args[0] if args else kwargs.get("tensors"))
        if not clock.light:  # the loss is not finite
            return watched(*args, **kwargs)
        if clock.blind:
            return original(*args, **kwargs)
        now = perf_counter()
        clock.row[OTHER] += now - clock.mark
        clock.mark = now
        clock.phase = BACKWARD
        try:
            result = original(*args, **kwargs)
        except BaseException as raised:
            clock.passed(raised)
            clock.switch(OTHER)
            raise
        clock.switch(OTHER)
        ended(sys._getframe(1))
        return result

    functools.update_wrapper(hooked, original)
    return hooked
