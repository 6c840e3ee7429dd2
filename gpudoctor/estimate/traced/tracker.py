"""Follows every tensor's memory from its first to its last use while a job runs, on real or fake tensors."""

import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from gpudoctor.estimate.real.build import BuiltJob
from gpudoctor.estimate.traced.ledger import Ledger, TracedWindow

HOST = "host"
"""The kind of a storage that is not on the device."""


class Tracker:
    """Storages that are alive, by their address; what it sees goes into a ledger."""

    def __init__(self) -> None:
        self.in_backward = False
        self.ledger = Ledger()
        self.window = TracedWindow("load")
        self._known: dict[int, tuple[int, Any]] = {}

    def enter(self, phase: str, block: int = -1) -> None:
        """The next window of this micro batch."""
        self.window = self.window._replace(phase=phase, block=block)
        self.ledger.enter(self.window)

    def see(self, tensor: Any) -> int:
        """Note a tensor's storage if it is new; its number."""
        storage = tensor.untyped_storage()
        address = storage._cdata
        known = self._known.get(address)
        if known is not None:
            return known[0]
        number = self.ledger.born(storage.nbytes())

        def gone(_: Any, ledger: Ledger = self.ledger, known: Any = self._known) -> None:
            known.pop(address, None)
            ledger.freed(number)

        # a storage's Python object lives as long as the storage itself (torch/csrc/Storage.cpp)
        self._known[address] = number, weakref.ref(storage, gone)
        return number

    def mark(self, tensor: Any, kind: str) -> None:
        """Say what a tensor's storage is."""
        self.ledger.storages[self.see(tensor)].kind = kind

    @contextmanager
    def backward(self) -> Iterator[None]:
        """Inside, a block that runs is a checkpoint's second forward and part of that block's backward."""
        before, self.in_backward = self.in_backward, True
        try:
            yield
        finally:
            self.in_backward = before

    def watching(self) -> Any:
        """A mode under which everything that operations make is seen."""
        return _mode()(self)


@cache
def _mode() -> Any:
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    class Watching(TorchDispatchMode):
        """Every operation below autograd passes here; what it returns is noted."""

        def __init__(self, tracker: Tracker) -> None:
            super().__init__()
            self.tracker = tracker

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            found = func(*args, **(kwargs or {}))
            self._note(found)
            return found

        def _note(self, found: Any) -> None:
            if isinstance(found, torch.Tensor):
                self.tracker.see(found)
            elif isinstance(found, list | tuple):
                for each in found:
                    self._note(each)

    return Watching


def mark_model(tracker: Tracker, built: BuiltJob) -> None:
    """Mark what is there before the first step: weights, adapters, the batch."""
    for name, parameter in built.model.named_parameters():
        adapter = built.job.adapted and parameter.requires_grad
        tracker.mark(parameter, "adapters" if adapter and "original" not in name else "weights")
    for buffer in built.model.buffers():
        tracker.mark(buffer, "weights")
    for tensor in (*built.batch.values(), *built.spare):
        tracker.mark(tensor, "batch")


@contextmanager
def marking(tracker: Tracker, built: BuiltJob) -> Iterator[None]:
    """Windows of blocks, and gradients marked as they are accumulated."""
    found = built.blocks()
    handles = [
        parameter.register_post_accumulate_grad_hook(lambda each: tracker.mark(each.grad, "gradients"))
        for parameter in built.model.parameters() if parameter.requires_grad
    ]  # fmt: skip
    for at, block in enumerate(found):
        handles.append(block.register_forward_pre_hook(entering(tracker, at), with_kwargs=True))
        handles.append(block.register_forward_hook(leaving(tracker, at, last=at == len(found) - 1)))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def entering(tracker: Tracker, at: int) -> Any:
    """A hook before a block's forward: its window begins; in the backward, what follows the first block is the
    tail."""

    def hook(_: Any, args: Any, kwargs: Any) -> None:
        tracker.enter("backward" if tracker.in_backward else "forward", at)
        given = _first(args) if args else kwargs.get("hidden_states")
        if at == 0 and given is not None and given.requires_grad:
            given.register_hook(lambda _: tracker.enter("tail"))

    return hook


def leaving(tracker: Tracker, at: int, *, last: bool) -> Any:
    """A hook after a block's forward: its backward begins with its output's gradient; after the last block
    comes the loss."""

    def hook(_: Any, __: Any, output: Any) -> None:
        given = _first(output)
        if given is not None and given.requires_grad:
            given.register_hook(lambda _: tracker.enter("backward", at))
        if last and not tracker.in_backward:
            tracker.enter("loss")

    return hook


def _first(given: Any) -> Any:
    """The first tensor of what a block takes or returns."""
    import torch

    if isinstance(given, torch.Tensor):
        return given
    if isinstance(given, list | tuple):
        return next((each for each in given if isinstance(each, torch.Tensor)), None)
    return None


def run_steps(tracker: Tracker, built: BuiltJob) -> None:
    """Two optimizer steps. The first gets gradients of zeros and only makes the optimizer's states, which the
    second finds there as every later step does. More than two micro batches are like the second."""
    with tracker.watching(), marking(tracker, built):
        tracker.window = TracedWindow("fill")
        tracker.ledger.enter(tracker.window)
        _fill_gradients(tracker, built)
        _optimize(tracker, built)
        for at in range(min(built.job.accumulate, 2)):
            tracker.window = TracedWindow("forward", -1, 1, at)
            tracker.ledger.enter(tracker.window)
            loss = built.forward()
            tracker.enter("loss-backward")
            with tracker.backward():
                loss.backward()
            del loss
        _optimize(tracker, built)
        tracker.enter("idle")


def _fill_gradients(tracker: Tracker, built: BuiltJob) -> None:
    import torch

    for parameter in built.model.parameters():
        if parameter.requires_grad:
            parameter.grad = torch.zeros_like(parameter)
            tracker.mark(parameter.grad, "gradients")


def _optimize(tracker: Tracker, built: BuiltJob) -> None:
    """The update, and gradients to None."""
    tracker.enter("step")
    built.optimizer.step()
    mark_states(tracker, built.optimizer)
    built.optimizer.zero_grad(set_to_none=True)


def mark_states(tracker: Tracker, optimizer: Any) -> None:
    """Mark an optimizer's states; its counts of steps lie on the host."""
    import torch

    for state in optimizer.state.values():
        for name, value in state.items():
            if isinstance(value, torch.Tensor):
                # torch keeps the count of steps on the host unless the optimizer is fused or capturable
                tracker.mark(value, HOST if name == "step" else "optimizer")
