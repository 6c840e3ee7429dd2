"""The outermost call of a model, by a replacement of `Module.__call__`, and `Module.train`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from ..clock import BACKWARD, EVALUATION, FORWARD, OWNS
from ..guard import CALLER
from ..importlib_bootstrap import Usual
from ..table import OTHER

if TYPE_CHECKING:
    from ..probe import Probe

HOOK = "forward"


def install(probe: Probe) -> None:
    """Replace `Module.__call__`."""
    module = probe.torch.nn.Module
    probe.guard.between(HOOK, module, "__call__", *_ends(probe), outer=True)
    if probe.guard.wanted(HOOK):
        # `Module.__call__` is another name of `_wrapped_call_impl`, by which it is pickled: both stay one.
        function = module.__dict__["__call__"]
        name = function.__name__
        original = module.__dict__.get(name)
        if original is not None and original is not function and name != "__call__":
            setattr(module, name, function)


def _ends(probe: Probe) -> tuple[Any, Any, Usual]:
    clock, steps, evaluation, models = probe.clock, probe.steps, probe.evaluation, probe.models
    grad_enabled = probe.torch.is_grad_enabled

    def begin(args: Any, kwargs: Any) -> int:
        clock.deep = True
        module = args[0]
        if clock.compiled is not None:
            clock.take()
        phase, grad = clock.phase, grad_enabled()
        if phase == OTHER and grad and module.training:
            evaluation.streak = 0
        else:
            if OWNS[phase] and phase != EVALUATION:
                return -1
            evaluation.forward(module, grad)
            phase = clock.phase
            if phase == EVALUATION:
                models.called(module, grad, True)
                probe.calling(module, args[1:], kwargs, False)
                return -1
            if phase == BACKWARD:  # a checkpointed part is computed again
                return -1
        if not steps.backwards:
            steps.forward_begins()
        if steps.index < 4 or not models.forwards & 63:
            models.see_autocast()
        models.called(module, grad, False)
        if not clock.light:
            probe.calling(module, args[1:], kwargs, grad)
        return clock.switch(FORWARD)

    def end(token: int, _result: Any) -> None:
        clock.deep = False
        if token < 0 or not clock.light:
            probe.called()
        if token >= 0:
            clock.switch(token)

    return begin, end, Usual(FORWARD, models.again_called)


# `Module.train`: going back to training ends an evaluation that nobody declared; where `eval()` was called
# last.

MODES = "modes"


def install_modes(probe: Probe) -> None:
    """Hook `Module.train` (which `Module.eval` calls, and which calls itself for every part)."""
    guard, evaluation, models = probe.guard, probe.evaluation, probe.models
    inside = [False]

    def train(args: Any, kwargs: Any) -> Any:
        if inside[0]:
            return
        inside[0] = True
        yield
        inside[0] = False
        if not (args[1] if len(args) > 1 else kwargs.get("mode", True)):
            models.put_to_eval(args[0], sys._getframe(CALLER))
        elif evaluation.undeclared() and evaluation.trains(args[0]):
            evaluation.finish()

    guard.surround(MODES, probe.torch.nn.Module, "train", train)
