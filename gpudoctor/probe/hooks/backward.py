"""Backward passes: `Tensor.backward` goes through `torch.autograd.backward`, so one hook sees both."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from ..clock import BACKWARD, EVALUATION, OWNS

if TYPE_CHECKING:
    from ..probe import Probe

HOOK = "backward"


def install(probe: Probe) -> None:
    """Replace `torch.autograd.backward` and `torch.autograd.grad`."""
    guard, clock, steps, evaluation = probe.guard, probe.clock, probe.steps, probe.evaluation
    backward_begins = guard.safely("numerics", probe.numerics.backward_begins)
    backward_ended = guard.safely("numerics", probe.numerics.backward_ended)

    def begin(args: Any, kwargs: Any) -> Any:
        phase = clock.phase
        if phase == BACKWARD or (OWNS[phase] and (phase != EVALUATION or evaluation.declared)):
            return None
        evaluation.finish()
        if not steps.backwards:
            probe.show()
        roots = args[0] if args else kwargs.get("tensors")
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

    def end_grad(token: Any, _result: Any, _failed: bool) -> None:
        clock.switch(token)

    autograd = probe.torch.autograd
    guard.replace(HOOK, autograd, "backward", lambda original: guard.around(HOOK, original, begin, end))
    guard.replace(HOOK, autograd, "grad", lambda original: guard.around(HOOK, original, begin_grad, end_grad))
