"""Meters of memory by window, and training steps with a mark at every instant that the estimate names."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from gpudoctor.estimate.measure.measurement import MeasuredStep

# On CUDA the caching allocator counts by itself (`max_memory_allocated`, reset at every mark). On the CPU torch
# keeps no such count, so its allocator's own events are taken from the profiler: every block that it handed out
# or took back, in bytes as asked for. A block that is taken back before the operator that asked for it returns
# is a kernel's own scratch (fp32 sums of a 16-bit matrix product, buffers a thread of attention): no tensor,
# and on a GPU not there. It is counted apart.


@dataclass(frozen=True, slots=True, kw_only=True)
class MeterWindow:
    """One stretch of the run."""

    name: str
    """What happened in it."""
    peak: int
    """The most bytes that were allocated at one time in it."""
    end: int
    """Bytes allocated at its end."""
    scratch: int = 0
    """How much more the peak would be with the CPU kernels' own scratch; 0 on CUDA."""


class MemoryMeter(Protocol):
    """Counts allocated bytes between marks."""

    def mark(self, name: str) -> None:
        """Close the open window under this name and begin the next one."""
        ...

    def take(self) -> list[MeterWindow]:
        """The windows since the last call, in order; the open one is dropped."""
        ...

    def reached(self) -> int | None:
        """The most bytes allocated so far in the open window; None where that cannot be said meanwhile."""
        ...


class CudaMeter:
    """The caching allocator's own counters of the current device."""

    def __init__(self) -> None:
        import torch

        self._cuda: Any = torch.cuda
        self._windows: list[MeterWindow] = []
        self._cuda.reset_peak_memory_stats()

    def mark(self, name: str) -> None:
        """Close the open window. Allocations are made by the host in order, so nothing has to be waited for."""
        peak, now = self._cuda.max_memory_allocated(), self._cuda.memory_allocated()
        self._windows.append(MeterWindow(name=name, peak=peak, end=now))
        self._cuda.reset_peak_memory_stats()

    def take(self) -> list[MeterWindow]:
        """The windows since the last call."""
        taken, self._windows = self._windows, []
        return taken

    def reached(self) -> int | None:
        """The most bytes allocated since the last mark."""
        return int(self._cuda.max_memory_allocated())


_MARK = "gpudoctor:"
_MAKERS = ("aten::empty", "aten::resize", "aten::new_empty", "aten::set_", "[memory]")
"""Operators that only hand out memory: the one that called them is the owner."""
_CASTS = ("aten::to", "aten::_to_copy", "aten::copy_")
_PROMOTING = frozenset(
    f"aten::{name}"
    for name in ("add", "sub", "rsub", "mul", "div", "pow", "where", "softmax", "log_softmax", "sum", "mean")
)
"""Operators that on the CPU cast operands of mixed types beforehand (TensorIterator, softmax with a type); on
CUDA their kernels read either type. Their casts are scratch."""


class CpuMeter:
    """The CPU allocator's events, read from one profile after another; what lived before stays counted."""

    def __init__(self) -> None:
        self._now = 0
        self._profile: Any = None
        self._begin()

    def _begin(self) -> None:
        from torch.profiler import ProfilerActivity, profile

        self._profile = profile(activities=[ProfilerActivity.CPU], profile_memory=True, acc_events=False)
        self._profile.__enter__()

    def mark(self, name: str) -> None:
        """Leave a mark among the allocator's events."""
        import torch

        with torch.profiler.record_function(_MARK + name):
            pass

    def take(self) -> list[MeterWindow]:
        """Close the profile, add its events up, and begin the next one."""
        self._profile.__exit__(None, None, None)
        changes = _changes(self._profile.profiler.kineto_results.experimental_event_tree())
        self._profile = None
        windows = list(_windows(changes, self._now))
        self._now += sum(change.size for change in changes)
        self._begin()
        return windows

    def reached(self) -> int | None:
        """Unknown before the profile is closed."""
        return None


@dataclass(slots=True)
class _Change:
    """A block handed out (size above 0) or taken back, or a mark (name)."""

    time: int
    size: int = 0
    name: str = ""
    scratch: bool = False


def _changes(tree: Iterable[Any]) -> list[_Change]:
    """The allocator's events and our marks in the order of time; scratch is told from tensors."""
    found: list[tuple[_Change, int, int]] = []
    stack = [(node, 0, False) for node in tree]
    while stack:
        node, owner_end, promoting = stack.pop()
        name = node.name
        if name == "[memory]":
            fields = node.extra_fields
            found.append((_Change(node.start_time_ns, fields.alloc_size), fields.ptr, owner_end))
        elif name.startswith(_MARK):
            found.append((_Change(node.start_time_ns, name=name.removeprefix(_MARK)), 0, 0))
        hands = name.startswith(_MAKERS) or (promoting and name in _CASTS)
        end = owner_end if hands else node.end_time_ns if name.startswith("aten::") else 0
        promotes = name in _PROMOTING or (promoting and hands)
        stack += [(child, end, promotes) for child in node.children]
    found.sort(key=lambda each: each[0].time)
    alive: dict[int, tuple[_Change, int]] = {}
    for change, address, owner_end in found:
        if change.size > 0:
            alive[address] = (change, owner_end)
        elif change.size < 0 and address in alive:
            made, made_end = alive.pop(address)
            made.scratch = change.scratch = change.time <= made_end
    return [change for change, _, _ in found]


def _windows(changes: Iterable[_Change], start: int) -> Iterator[MeterWindow]:
    """Peaks between marks, of tensors alone and with scratch."""
    tensors = peak = everything = most = start
    for change in changes:
        if change.name:
            yield MeterWindow(name=change.name, peak=peak, end=tensors, scratch=most - peak)
            peak, most = tensors, everything
            continue
        everything += change.size
        tensors += 0 if change.scratch else change.size
        peak, most = max(peak, tensors), max(most, everything)


# Training steps on a real model with a mark at every instant that the estimate names.
#
# The instants lie between gradients: the loss ends when the last block's output gets its gradient, that block's
# backward when its input gets one, and the end of the backward begins when the first trained block's output
# does.

FORWARD, LOSS, LAYER, MIDDLE, BACKWARD, STEP, BETWEEN = (
    "forward", "loss", "layer", "middle", "backward", "step", "between",
)  # fmt: skip
_INSTANT = {FORWARD: "loss", LOSS: "loss", LAYER: "layer", BACKWARD: "backward", STEP: "step"}
"""Window to the instant that it belongs to; the blocks between last and first belong to none."""


class Marker:
    """Hooks on a model's blocks that leave a mark when a gradient arrives."""

    def __init__(self, blocks: Sequence[Any], meter: MemoryMeter, tell: Callable[[str], None]) -> None:
        self._meter, self._tell = meter, tell
        self._forward = True
        self._first: Any = None
        self.micro = 0
        self._hooks = [block.register_forward_hook(self._after(block is blocks[-1])) for block in blocks]
        if blocks:
            self._hooks.append(blocks[-1].register_forward_pre_hook(self._before_last, with_kwargs=True))

    def begin(self, micro: int) -> None:
        """A micro batch begins."""
        self.micro, self._forward, self._first = micro, True, None

    def backward(self) -> None:
        """The forward is over: what runs from now on is recomputed."""
        first, self._first, self._forward = self._first, None, False
        self._on_gradient(first, MIDDLE)  # last: with two blocks it is the tensor that LAYER waits for

    def mark(self, name: str) -> None:
        """Close the open window under this name."""
        self._meter.mark(f"{self.micro} {name}")
        self._tell(name)

    def remove(self) -> None:
        """Take the hooks off."""
        for hook in self._hooks:
            hook.remove()

    def _on_gradient(self, tensor: Any, name: str) -> None:
        def arrived(_: Any) -> None:
            self.mark(name)

        if tensor is not None and tensor.requires_grad:
            tensor.register_hook(arrived)

    def _after(self, last: bool) -> Callable[..., None]:
        def done(_module: Any, _inputs: Any, output: Any) -> None:
            tensor = output if hasattr(output, "requires_grad") else output[0]
            if not self._forward:
                return
            if last:
                self._on_gradient(tensor, LOSS)
            elif self._first is None and tensor.requires_grad:
                self._first = tensor

        return done

    def _before_last(self, _module: Any, inputs: tuple[Any, ...], named: dict[str, Any]) -> None:
        if self._forward:
            self._on_gradient(inputs[0] if inputs else named.get("hidden_states"), LAYER)


def read_step(windows: Iterable[MeterWindow]) -> MeasuredStep:
    """A step's windows by instant; of later micro batches everything is accumulation."""
    instants: dict[str, int] = {}
    scratch: dict[str, int] = {}
    peak = static = 0
    for window in windows:
        micro, _, name = window.name.partition(" ")
        peak, static = max(peak, window.peak), window.end
        found = [_INSTANT[name]] if name in _INSTANT and (micro == "0" or name == STEP) else []
        if micro != "0" and name not in {STEP, BETWEEN}:
            found = ["accumulation"]
        for instant in found:
            if window.peak >= instants.get(instant, 0):
                instants[instant] = window.peak
                scratch[instant] = window.scratch
    return MeasuredStep(instants=instants, peak=peak, static=static, scratch={k: v for k, v in scratch.items() if v})
