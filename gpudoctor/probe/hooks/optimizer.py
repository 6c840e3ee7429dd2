"""Steps of optimizers, by torch's global hooks; their closures; where they were made; `zero_grad`, clipping."""

from __future__ import annotations

import functools
import sys
import threading
from time import perf_counter
from typing import TYPE_CHECKING, Any

from ..call_sites import where
from ..clock import BACKWARD, EVALUATION, OPTIMIZER, OWNS
from ..guard import CALLER
from ..importlib_bootstrap import MISSING, Usual, wrapped
from ..table import OTHER

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..probe import Probe

HOOK = "optimizer"
_CLEARS = tuple(owns or place in (OPTIMIZER, BACKWARD) for place, owns in enumerate(OWNS))
"""Phases that own what is cleared or clipped in them."""


def install(probe: Probe) -> None:
    """Register the global hooks and replace `Optimizer.__init__`, `zero_grad` and the clipping functions."""
    guard = probe.guard
    if not guard.wanted(HOOK):
        return
    module: Any = sys.modules["torch.optim.optimizer"]
    before, after = _ends(probe)
    module.register_optimizer_step_pre_hook(before)
    module.register_optimizer_step_post_hook(after)
    _making(probe, module.Optimizer)
    for owner, name in (
        (module.Optimizer, "zero_grad"),
        (probe.torch.nn.Module, "zero_grad"),
        (probe.torch.nn.utils, "clip_grad_norm_"),
        (probe.torch.nn.utils, "clip_grad_value_"),
    ):
        _phase(probe, owner, name)
    _scaler(probe, probe.torch.amp.GradScaler)


def _ends(probe: Probe) -> tuple[Any, Any]:
    clock, steps, models, evaluation = probe.clock, probe.steps, probe.models, probe.evaluation
    read_before = probe.guard.reading("numerics", probe.numerics.before_step)
    read_after = probe.guard.reading("numerics", probe.numerics.after_step)
    compiling = probe.guard.compiling
    ident = threading.get_ident
    running: list[tuple[int, int]] = []
    """Optimizers whose step runs, with the phase before it, outermost first (some call others)."""

    def before(optimizer: Any, args: Any, kwargs: Any) -> Any:
        if ident() != clock.ident:
            return None
        key = id(optimizer)
        if running:
            if all(known != key for known, _ in running):
                running.append((key, -1))
                return None
            running.clear()  # its last step raised, so no hook saw its end
        if clock.phase == EVALUATION or evaluation.streak:
            evaluation.finish()
        phase = clock.phase
        if OWNS[phase]:
            return None
        clock.scaling = False
        models.stepped(optimizer, key)
        closure = closure_of(args, kwargs) if kwargs or len(args) > 1 else None
        if not clock.light:
            began = perf_counter()
            if phase != BACKWARD and closure is None:
                read_before(optimizer)
            clock.own = perf_counter() - began
        running.append((key, clock.switch(OPTIMIZER)))
        if closure is None:
            return None
        return marked(probe, closure, args, kwargs, functools.partial(read_before, optimizer))

    def after(optimizer: Any) -> None:
        if ident() != clock.ident:
            if clock.phase == BACKWARD:  # stepped by a hook in autograd's thread of a device
                steps.optimizer_ended(optimizer, id(optimizer))
            return
        key = id(optimizer)
        if not running or running[-1][0] != key:
            return
        _, phase = running.pop()
        if phase >= 0:
            clock.switch(phase)
            if phase != BACKWARD and not clock.light:
                read_after(optimizer)
            steps.optimizer_ended(optimizer, key)

    def compiled_ended() -> None:
        """A step of an optimizer has ended in compiled code, where no hook runs, since the last phase did."""
        optimizer, clock.compiled = clock.compiled, None
        phase = clock.phase
        if optimizer is None or (OWNS[phase] and phase != EVALUATION):
            return
        evaluation.finish()
        running.clear()
        if clock.phase == OTHER:
            clock.phase = OPTIMIZER
            clock.switch(OTHER)
        key = id(optimizer)
        models.stepped(optimizer, key)
        steps.optimizer_ended(optimizer, key)

    clock.take = probe.guard.safely(HOOK, compiled_ended)
    safe_before, safe_after = probe.guard.safely(HOOK, before), probe.guard.safely(HOOK, after)

    def pre_hook(optimizer: Any, args: Any, kwargs: Any) -> Any:
        # First: Dynamo would guard on whatever is read or set before.
        if compiling():
            return None
        plain = clock.quick and id(optimizer) == steps.anchor and not (running or kwargs or len(args) > 1)
        if not plain or clock.phase != OTHER or evaluation.streak or ident() != clock.ident:
            return safe_before(optimizer, args, kwargs)
        running.append((steps.anchor, OTHER))
        clock.phase = OPTIMIZER
        clock.mark = perf_counter()
        return None

    def post_hook(optimizer: Any, _args: Any, _kwargs: Any) -> None:
        if compiling():
            clock.compiled = optimizer  # only ever set here: Dynamo sets it when the compiled code has run
        elif clock.quick and id(optimizer) == steps.anchor and running == [(steps.anchor, OTHER)]:
            running.clear()
            steps.anchor_ended()
        else:
            safe_after(optimizer)

    return pre_hook, post_hook


def _making(probe: Probe, kind: Any) -> None:
    def make(args: Any, _kwargs: Any) -> Any:
        if (yield) is not MISSING:
            probe.steps.optimizer_made()
            if len(probe.models.made) < 256:
                probe.models.made[id(args[0])] = where(probe.places.user_frame(sys._getframe(CALLER)))

    probe.guard.surround(HOOK, kind, "__init__", make)


def _phase(probe: Probe, owner: Any, name: str) -> None:
    """Clearing and clipping are the optimizer's work."""
    clock = probe.clock
    clipped = probe.guard.reading("numerics", probe.numerics.clipped)
    clips, unscales = name == "clip_grad_norm_", name == "unscale_"

    def begins(args: Any, kwargs: Any) -> int | None:
        if clips and not clock.light:
            probe.clips(args, kwargs)
        elif unscales:
            probe.numerics.carries_scale = False
        return None if _CLEARS[clock.phase] else clock.switch(OPTIMIZER)

    def ended(before: int, result: Any) -> None:
        clock.switch(before)
        if after is not None:
            after(result)

    after = clipped if name.startswith("clip") else None
    # Whatever it is given (`bool` of the arguments), a quick step's call is as ever.
    probe.guard.between(HOOK, owner, name, begins, ended, Usual(OPTIMIZER, bool, after))


def _scaler(probe: Probe, scaler: Any) -> None:
    """`GradScaler`: the loss before scaling, steps that it skips, the scale."""
    guard, clock, steps, numerics = probe.guard, probe.clock, probe.steps, probe.numerics
    skipped = [False]
    has_updated = guard.reading("numerics", numerics.scaler_updated)
    scaled = guard.reading("numerics", numerics.scaled)

    def scale(args: Any, _kwargs: Any) -> Any:
        if len(args) > 1 and not OWNS[clock.phase]:
            numerics.carries_scale = bool(getattr(args[0], "_enabled", True))
            scaled(args[1])

    def step(args: Any, _kwargs: Any) -> Any:
        before, calls = clock.phase, steps.optimizer_calls
        if OWNS[before] or len(args) < 2:
            return
        clock.switch(OPTIMIZER)
        result = yield
        clock.switch(before)
        if result is not MISSING:
            skipped[0] = steps.optimizer_calls == calls
            if skipped[0]:
                steps.optimizer_ended(args[1], id(args[1]))

    def may_step(_args: Any, _kwargs: Any) -> Any:
        clock.scaling = clock.phase == OPTIMIZER
        yield
        clock.scaling = False

    def update(args: Any, _kwargs: Any) -> Any:
        was, skipped[0], numerics.carries_scale = skipped[0], False, False
        has_updated(args[0], False, True)
        before = -1 if OWNS[clock.phase] else clock.switch(OPTIMIZER)
        yield
        if before >= 0:
            clock.switch(before)
        has_updated(args[0], was)

    # Unscaling walks over all gradients, and looks at the device for values that are not finite.
    _phase(probe, scaler, "unscale_")
    for name, work in (("scale", scale), ("step", step), ("_maybe_opt_step", may_step), ("update", update)):
        guard.surround("scaler", scaler, name, work)


# Closures that an optimizer's step calls (LBFGS, Lightning): what runs in them is the loop's.
#
# The forward and the backward pass inside a closure have hooks of their own; the rest of it (the user's
# `training_step`, moving a batch, logging) would else count as the optimizer's time. And the gradients that the
# step uses are there only when the closure has returned: before it stand those of the step before.

Arguments = tuple[Any, Any]


def closure_of(args: Any, kwargs: Any) -> Any:
    """The closure of a call of `Optimizer.step` (`args` begins with the optimizer); None without one."""
    closure = kwargs.get("closure") if kwargs else None
    if closure is None and len(args) > 1:
        closure = args[1]
    return closure if callable(closure) else None


def marked(probe: Probe, closure: Any, args: Any, kwargs: Any, returned: Callable[[], Any]) -> Arguments:
    """The arguments of `step` with its closure under the clock; `returned` is called once it is over.

    What the closure returns and raises is as without us.
    """
    clock = probe.clock
    ident = threading.get_ident
    first = True

    def begin(_args: Any, _kwargs: Any) -> Any:
        if ident() != clock.ident or clock.phase != OPTIMIZER:
            return None
        return clock.switch(OTHER)

    def end(_token: Any, _result: Any) -> None:
        nonlocal first
        clock.switch(OPTIMIZER)
        if first:
            first = False
            returned()

    known = wrapped(closure, begin, end, probe.guard.compiling)
    if kwargs and kwargs.get("closure") is closure:
        return args, {**kwargs, "closure": known}
    return (args[0], known, *args[2:]), kwargs
