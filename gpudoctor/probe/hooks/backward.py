"""Backward passes: `Tensor.backward` goes through `torch.autograd.backward`, so one hook sees both."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..clock import BACKWARD, EVALUATION, OWNS
from ..importlib_bootstrap import MISSING, Usual

if TYPE_CHECKING:
    from ..probe import Probe

HOOK = "backward"


def install(probe: Probe) -> None:
    """Hook `torch.autograd.backward` and `torch.autograd.grad`."""
    guard, clock, steps, evaluation = probe.guard, probe.clock, probe.steps, probe.evaluation
    backward_begins = guard.reading("numerics", probe.numerics.backward_begins)
    backward_ended = guard.reading("numerics", probe.numerics.backward_ended)

    def begins(args: Any, kwargs: Any) -> int | None:
        if clock.compiled is not None:
            clock.take()
        phase = clock.phase
        if phase == BACKWARD or (OWNS[phase] and (phase != EVALUATION or evaluation.declared)):
            return None
        if phase == EVALUATION or evaluation.streak:
            evaluation.finish()
        if not steps.backwards:
            probe.show()
        backward_begins(args[0] if args else kwargs.get("tensors"))
        return clock.switch(BACKWARD)

    def ended(before: int, result: Any) -> None:
        clock.switch(before)
        if result is not MISSING:
            if not clock.light:
                backward_ended()
            steps.backward_ended()

    def after(result: Any) -> None:
        if result is not MISSING:
            steps.backward_ended()

    def grad(_args: Any, _kwargs: Any) -> int | None:
        phase = clock.phase
        return None if phase == BACKWARD or OWNS[phase] else clock.switch(BACKWARD)

    def given(before: int, _result: Any) -> None:
        clock.switch(before)

    autograd = probe.torch.autograd
    guard.between(HOOK, autograd, "backward", begins, ended, Usual(BACKWARD, probe.numerics.usual_loss, after))
    guard.between(HOOK, autograd, "grad", grad, given)
