"""What a script finds: a card that is not there, weights that are not loaded, values that nobody computed.

The card is shown to the script's own files only; libraries see none and take their ways for the CPU, which
`cuda_choices` turns back into CUDA's.
"""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from typing import Any
from unittest.mock import patch

from gpudoctor.estimate.traced.tracker import Tracker

CARD_BYTES = 80 << 30
"""Memory of the card that the script is told of."""
CAPABILITY = (8, 0)


@contextmanager
def script_world(tracker: Tracker, folder: str) -> Iterator[None]:
    """Inside, a script of this folder runs on fake tensors as if on one GPU."""
    import torch

    os.environ.setdefault("WANDB_MODE", "disabled")
    mode = _seeing()(tracker)
    engine = torch.autograd._engine_run_backward

    def run_backward(*args: Any, **kwargs: Any) -> Any:
        with mode:  # which is off while it decides about backward()
            return engine(*args, **kwargs)

    with ExitStack() as stack:
        for target, name, value in (*_card(folder), *_torch(), *_optimizers()):
            if hasattr(target, name):
                stack.enter_context(patch.object(target, name, value))
        stack.enter_context(patch.object(torch.autograd, "_engine_run_backward", run_backward))
        if "transformers" in sys.modules:
            from gpudoctor.estimate.traced.script_models import library_patches

            for target, name, value in library_patches():
                stack.enter_context(patch.object(target, name, value))
        stack.enter_context(mode)
        yield


def _card(folder: str) -> list[tuple[Any, str, Any]]:
    """torch.cuda as a script asks it."""
    import torch

    def own(answer: Any, real: Callable[..., Any]) -> Callable[..., Any]:
        def asked(*args: Any, **kwargs: Any) -> Any:
            caller = sys._getframe(1).f_globals
            path = os.path.abspath(str(caller.get("__file__", "")))
            mine = caller.get("__name__") == "__main__" or os.path.dirname(path) == folder
            return answer if mine else real(*args, **kwargs)

        return asked

    cuda = torch.cuda
    seen = [
        (cuda, name, own(answer, getattr(cuda, name)))
        for name, answer in (("is_available", True), ("device_count", 1), ("is_bf16_supported", True))
    ]
    nothing = (
        "synchronize", "empty_cache", "reset_peak_memory_stats", "reset_max_memory_allocated", "set_device",
        "manual_seed", "manual_seed_all", "ipc_collect", "set_per_process_memory_fraction", "init",
    )  # fmt: skip
    told: dict[str, Any] = {
        **dict.fromkeys(nothing), "current_device": 0, "get_device_name": "a GPU on paper",
        "get_device_capability": CAPABILITY, "mem_get_info": (CARD_BYTES, CARD_BYTES), "memory_summary": "",
        "get_device_properties": _Properties(), "Event": _Event(), "memory_stats": {},
        "max_memory_allocated": 0, "max_memory_reserved": 0, "memory_allocated": 0, "memory_reserved": 0,
    }  # fmt: skip
    return [*seen, *((cuda, name, _always(answer)) for name, answer in told.items())]


def _always(answer: Any) -> Callable[..., Any]:
    return lambda *_, **__: answer


class _Properties:
    """What `torch.cuda.get_device_properties` answers."""

    name = "a GPU on paper"
    total_memory = CARD_BYTES
    major, minor = CAPABILITY
    multi_processor_count = 108


class _Event:
    """A CUDA event without a clock."""

    def record(self, *_: Any) -> None:
        """Nothing runs."""

    def synchronize(self) -> None:
        """Nothing runs."""

    def elapsed_time(self, _: Any) -> float:
        """Milliseconds; not 0, for scripts divide by it."""
        return 1.0


def _torch() -> list[tuple[Any, str, Any]]:
    """Autocast of cuda on tensors that say cpu; compiled code, which allocates less, as plain code; a loader
    without workers; no files written, for there are no values; no random states, which fakes do not have."""
    import torch
    from torch.amp import autocast_mode
    from torch.utils import data

    autocast, loader = autocast_mode.autocast.__init__, data.DataLoader.__init__

    def cast(self: Any, device_type: str, dtype: Any = None, *args: Any, **kwargs: Any) -> None:
        if device_type == "cuda":
            device_type, dtype = "cpu", dtype or torch.float16
        autocast(self, device_type, dtype, *args, **kwargs)

    def load(self: Any, *args: Any, **kwargs: Any) -> None:
        alone = {"num_workers": 0, "prefetch_factor": None, "persistent_workers": False, "pin_memory": False}
        args = args[:5]  # dataset, batch_size, shuffle, sampler, batch_sampler: workers come after them
        loader(self, *args, **{**kwargs, **alone, "timeout": 0, "multiprocessing_context": None})

    def compiled(model: Any = None, *_: Any, **__: Any) -> Any:
        return model if model is not None else lambda each: each

    def loaded(*args: Any, **kwargs: Any) -> Any:
        return read(*args, **{**kwargs, "map_location": "cpu"})

    state, read = _always(None), torch.load
    return [
        (autocast_mode.autocast, "__init__", cast), (data.DataLoader, "__init__", load),
        (torch, "save", _always(None)), (torch, "load", loaded), (torch, "compile", compiled),
        (torch.nn.Module, "compile", _always(None)),
        (torch, "get_rng_state", state), (torch, "set_rng_state", state),
        (torch.random, "get_rng_state", state), (torch.random, "set_rng_state", state),
    ]  # fmt: skip


def _optimizers() -> list[tuple[Any, str, Any]]:
    """On a GPU torch takes the foreach implementation by itself (torch/optim/optimizer.py)."""
    import torch

    name = "_default_to_fused_or_foreach"

    def chosen(_params: Any, differentiable: bool, **_: Any) -> tuple[bool, bool]:
        return False, not differentiable

    modules = [each for key, each in sys.modules.items() if key.startswith("torch.optim")]
    return [(each, name, chosen) for each in (torch.optim, *modules) if hasattr(each, name)]


@cache
def _seeing() -> Any:
    import torch
    from torch._subclasses.fake_tensor import FakeTensor
    from torch.overrides import TorchFunctionMode

    tensor = torch.Tensor
    numbers = {
        tensor.item: None, tensor.__float__: float, tensor.__int__: int, tensor.__bool__: bool,
        tensor.__index__: int, tensor.__complex__: complex,
    }  # fmt: skip

    class Seeing(TorchFunctionMode):
        """What a script asks of tensors, and where it puts them."""

        def __init__(self, tracker: Tracker) -> None:
            super().__init__()
            self.tracker = tracker

        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            kwargs = dict(kwargs or {})
            if func in numbers:
                return _number(args[0], numbers[func])
            if func in {tensor.tolist, tensor.numpy, tensor.__array__}:
                return _values(args[0], func)
            if func is tensor.pin_memory:
                return args[0]
            if func is tensor.cuda:
                return self._placed(args[0])
            moved = func is tensor.to or "device" in kwargs
            if not moved:
                return func(*args, **kwargs)
            asked = [_cuda(each) for each in (*args[1:2], kwargs.get("device"))]
            if func is tensor.to and len(args) > 1 and asked[0]:
                args = (args[0], "cpu", *args[2:])
            if asked[-1]:
                kwargs["device"] = "cpu"
            found = func(*args, **kwargs)
            return self._placed(found) if any(asked) else found

        def _placed(self, found: Any) -> Any:
            """A tensor that the script put on the card."""
            if isinstance(found, torch.Tensor):
                storage = self.tracker.ledger.storages[self.tracker.see(found)]
                storage.kind = "" if storage.kind == "host" else storage.kind
            return found

    def _cuda(device: Any) -> bool:
        if isinstance(device, torch.device):
            return device.type == "cuda"
        return (isinstance(device, str) and device.startswith("cuda")) or type(device) is int

    def _known(given: Any) -> Any:
        """The tensor itself where its values are there."""
        return getattr(given, "constant", None) if isinstance(given, FakeTensor) else given

    def _number(given: Any, kind: Any) -> Any:
        known = _known(given)
        if known is not None:
            with _plain():
                return known.item() if kind is None else kind(known.item())
        number = 1 if given.is_floating_point() or given.is_complex() else 0
        if kind is None:
            return float(number) if given.is_floating_point() else given.dtype is not torch.bool and number
        return False if kind is bool else kind(number)

    def _values(given: Any, func: Any) -> Any:
        import numpy

        known = _known(given)
        if known is not None:
            with _plain():
                return func(known)
        kind = torch.empty(0, dtype=given.dtype).dtype
        name = "float32" if kind is torch.bfloat16 else str(kind).rpartition(".")[2]
        found = numpy.zeros(tuple(given.shape), dtype=name)
        return found.tolist() if func is tensor.tolist else found

    return Seeing


@contextmanager
def _plain() -> Iterator[None]:
    """Without any mode: values of real tensors."""
    from torch.utils._python_dispatch import _disable_current_modes

    with _disable_current_modes():
        yield
