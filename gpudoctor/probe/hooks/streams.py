"""Waits of the training's stream for another one, and graphs of a device that are replayed."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Iterator
from types import FrameType, FunctionType
from typing import TYPE_CHECKING, Any

from ..clock import COLLECTIVE, DATA_WAIT, FORWARD, OWNS, TRANSFER
from ..importlib_bootstrap import MISSING
from ..table import OTHER
from .calls import PARALLELISM

if TYPE_CHECKING:
    from ..importlib_bootstrap import Enter, Leave
    from ..probe import Probe

# The host does not wait there: it tells the stream to. So an event before and one after the waiting show how
# long the device has stood still for others; what they did while it worked was hidden.

HOOK = "streams"
_DEEP = 3
"""How deep tensors are looked for in what a model gives."""
_CALLER = 4  # frames from `begins` out to the caller of the function that it is hooked to
_BESIDE = frozenset({DATA_WAIT, TRANSFER, OTHER})
"""Phases of the host in which a stream that waits for another one waits for its batch."""


def install(probe: Probe) -> None:
    """Listen to DistributedDataParallel, and to streams once the training is seen to use a device."""
    guard = probe.guard
    if not guard.wanted(HOOK):
        return
    probe.device_clock.met.append(guard.safely(HOOK, lambda: _streams(probe)))
    probe.when_imported("torch.nn.parallel.distributed", lambda module: _gradients(probe, module))


def _streams(probe: Probe) -> None:
    """Where a device's streams are told in Python to wait; every way goes through one of the two."""
    module = probe.device_clock.module
    for owner, name, place in (("Event", "wait", 1), ("Stream", "wait_event", 0)):
        kind = getattr(module, owner, None)
        function = vars(kind).get(name) if isinstance(kind, type) else None
        if isinstance(function, FunctionType):
            probe.guard.install(HOOK, kind, name, *_waits(probe, function.__module__, place))
            return


def _waits(probe: Probe, own: str, place: int) -> tuple[Enter, Leave]:
    """Hooks of a function whose argument with this number is the stream that is to wait. Autograd's threads
    call it, too.
    """
    device, clock = probe.device_clock, probe.clock

    def begins(args: Any, kwargs: Any) -> int | None:
        waiting = args[place] if len(args) > place else kwargs.get("stream")
        phase = COLLECTIVE if _parallel(sys._getframe(_CALLER), own) else TRANSFER
        if (phase == TRANSFER and clock.phase not in _BESIDE) or not device.on_stream(waiting):
            return None
        device.mark(clock.phase)
        return phase

    begin, end = probe.guard.safely(HOOK, begins), probe.guard.safely(HOOK, device.mark)

    def enter(args: Any, kwargs: Any) -> int | None:
        if not device.timing:
            return None
        found: int | None = begin(args, kwargs)
        return found

    def leave(token: int, _result: Any) -> None:
        end(token)

    return enter, leave


def _parallel(frame: FrameType | None, own: str) -> bool:
    """Whether a parallelism asks, and not the program: the first frame outside the stream's own module."""
    while frame is not None and frame.f_globals.get("__name__") == own:
        frame = frame.f_back
    return frame is not None and str(frame.f_globals.get("__name__", "")).startswith(PARALLELISM)


def _gradients(probe: Probe, module: Any) -> None:
    """At the end of a backward pass the stream waits for the gradients that are not reduced yet.

    That waiting is a callback of autograd's that the reducer leaves when it has the last gradient. One that is
    left at the pass's beginning is called before it.
    """
    device, engine = probe.device_clock, probe.torch.autograd.Variable._execution_engine
    reduces = probe.guard.safely(HOOK, device.reduces)
    leave_it = probe.guard.safely(HOOK, lambda: engine.queue_callback(reduces))

    def began(_gradient: Any) -> None:  # a hook that gives a value replaces the gradient
        leave_it()

    def forward(_args: Any, _kwargs: Any) -> Any:
        if not device.timing or not probe.torch.is_grad_enabled():
            return
        found = next(_tensors(probe.torch, (yield), _DEEP), None)
        if found is not None:
            found.register_hook(began)

    probe.guard.surround(HOOK, module.DistributedDataParallel, "_post_forward", forward)


def _tensors(torch: Any, value: Any, depth: int) -> Iterator[Any]:
    """The tensors in a model's output through which gradients come."""
    if isinstance(value, torch.Tensor):
        if value.requires_grad:
            yield value
    elif depth:
        held = value.values() if isinstance(value, dict) else value if isinstance(value, (tuple, list)) else ()
        for one in held:
            yield from _tensors(torch, one, depth - 1)


# Graphs of a device that are replayed (`torch.cuda.CUDAGraph`, `torch.accelerator.Graph`).
#
# A replay calls none of the functions that were captured, so no hook of model, backward pass or optimizer sees
# it. What a graph holds is learnt while it is captured: an optimizer's step in it is made by every replay.

REPLAYS = "replays"


def install_replays(probe: Probe) -> None:
    """Hook the two kinds of graph that torch has, so far as this torch has them."""
    clock, steps, guard = probe.clock, probe.steps, probe.guard
    held: weakref.WeakKeyDictionary[Any, list[Any]] = weakref.WeakKeyDictionary()
    """Optimizers whose steps a graph holds."""
    told = False
    """Whether the recording says that steps are replayed."""

    def begins(args: Any, _kwargs: Any) -> None:
        steps.captured = held[args[0]] = []

    def ends(_args: Any, _kwargs: Any) -> None:
        steps.captured = None

    def replay(args: Any, _kwargs: Any) -> Any:
        nonlocal told
        optimizers = held.get(args[0])
        if not optimizers or OWNS[clock.phase]:
            return
        # It is forward, backward and step in one launch: the first of them stands for all.
        before = clock.switch(FORWARD) if clock.phase == OTHER else -1
        result = yield
        if before >= 0:
            clock.switch(before)
        if result is MISSING:
            return
        if not told:
            told = True
            probe.record("compile", {"step": steps.index, "kind": "replay"})
        for reference in optimizers:
            optimizer = reference()
            if optimizer is not None:
                steps.optimizer_ended(optimizer, id(optimizer))

    torch = probe.torch
    homes = (torch.cuda, "CUDAGraph"), (getattr(torch, "accelerator", None), "Graph")
    for kind in (getattr(home, name, None) for home, name in homes):
        if kind is not None and "replay" in vars(kind):
            for name, work in (("capture_begin", begins), ("capture_end", ends), ("replay", replay)):
                guard.surround(REPLAYS, kind, name, work)
