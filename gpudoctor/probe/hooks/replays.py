"""Graphs of a device that are replayed (`torch.cuda.CUDAGraph`, `torch.accelerator.Graph`).

A replay calls none of the functions that were captured, so no hook of model, backward pass or optimizer sees
it. What a graph holds is learnt while it is captured: an optimizer's step in it is made by every replay.
"""

from __future__ import annotations

import sys
import weakref
from typing import TYPE_CHECKING, Any

from ..clock import FORWARD, OWNS
from ..guard import CALLER
from ..table import OTHER

if TYPE_CHECKING:
    from ..probe import Probe

HOOK = "replays"


def install(probe: Probe) -> None:
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

    def begin(args: Any, _kwargs: Any) -> Any:
        optimizers = held.get(args[0])
        if not optimizers or OWNS[clock.phase]:
            return None
        probe.pace.leave()
        # It is forward, backward and step in one launch: the first of them stands for all.
        return optimizers, clock.switch(FORWARD) if clock.phase == OTHER else -1

    def end(token: Any, _result: Any, failed: bool) -> None:
        nonlocal told
        optimizers, phase = token
        if phase >= 0:
            clock.switch(phase)
        if not told and not failed:
            told = True
            probe.record("compile", {"step": steps.index, "kind": "replay"})
        for reference in () if failed else optimizers:
            optimizer = reference()
            if optimizer is not None:
                steps.optimizer_ended(optimizer, sys._getframe(CALLER))

    def nothing(_token: Any, _result: Any, _failed: bool) -> None:
        """Never called: a capture's begin and end give no token."""

    torch = probe.torch
    homes = (torch.cuda, "CUDAGraph"), (getattr(torch, "accelerator", None), "Graph")
    for kind in (getattr(home, name, None) for home, name in homes):
        if kind is not None and "replay" in vars(kind):
            guard.surround(HOOK, kind, "capture_begin", begins, nothing)
            guard.surround(HOOK, kind, "capture_end", ends, nothing)
            guard.surround(HOOK, kind, "replay", begin, end)
