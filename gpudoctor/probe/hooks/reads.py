"""Reads of tensors by the host (`item`, `tolist`, `float`...), which wait for the device, and moves to it.

What makes a tensor of a size that only its values tell (`nonzero`) waits as well. So do an index that is a mask
(`x[x > 0]`), `torch.unique(x)` and `torch.nonzero(x)`, which are left to the sampler: a tensor whose `__getitem__`
is replaced is a sequence to C code, so that `torch.tensor([loss, other])` fails, and Dynamo knows torch's C
functions by identity.

A tensor's methods are replaced by descriptors: `torch.Tensor.item` is still torch's own object, which code
compares with (subclasses that handle `__torch_function__`); only a tensor's own `tensor.item` comes by
here. Of tensors on the CPU only the count and the line are taken, and the method that is called is torch's.
"""

from __future__ import annotations

import functools
import sys
import threading
from time import perf_counter
from typing import TYPE_CHECKING, Any

from ..clock import OPTIMIZER, OWNS, SYNC, TRANSFER
from ..table import AT

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import FrameType

    from ..clock import Clock
    from ..probe import Probe

HOOK = "reads"
HOST_READS = ("item", "tolist")
"""Reads that are worth counting on a machine without a device, too."""
DEVICE_READS = ("numpy", "cpu", "__bool__", "__float__", "__int__", "__index__", "__array__")
MOVES = ("to", "cuda")
WAITS = ("nonzero", "argwhere", "masked_select", "equal", "is_nonzero", "allclose", "bincount")
"""Methods that give no result before the device has computed it."""
_READS = AT["reads"]
_INNER = ("/torch/_tensor.py", "/torch/_tensor_str.py", "\\torch\\_tensor.py", "\\torch\\_tensor_str.py")
"""Files of torch that read for the user: `print(t)`, `f"{t}"`."""


def install(probe: Probe) -> None:
    """Replace the methods of `torch.Tensor`."""
    tensor = probe.torch.Tensor
    if not probe.guard.wanted(HOOK):
        return
    reader = Reader(probe)

    def put(kind: Any, choose: Any, names: Iterable[str]) -> None:
        for name in names:
            original = getattr(tensor, name)
            chosen = probe.guard.safely(HOOK, functools.partial(choose, name))
            setattr(tensor, name, kind(original, chosen))

    def of_devices() -> None:
        put(read, reader.of, DEVICE_READS)
        put(read, reader.wait, WAITS)
        put(Method, reader.move, MOVES)

    read = functools.partial(Read, clock=probe.clock)
    put(read, reader.of, HOST_READS)
    if has_device(probe):
        of_devices()
    else:  # one of a torch that was built without any: what brings it comes later
        probe.device_clock.met.append(probe.guard.safely(HOOK, of_devices))


def has_device(probe: Probe) -> bool:
    """Whether this torch can use a device at all; asking whether there is one would start its runtime."""
    version = probe.torch.version
    backends = probe.torch.backends
    built = getattr(getattr(backends, "mps", None), "is_built", lambda: False)
    return bool(
        version.cuda or getattr(version, "hip", None) or getattr(version, "xpu", None) or built()
        or probe.settings.get("device")
    )  # fmt: skip


class Method:
    """A method that is torch's own on the class, and may be another on a tensor."""

    __slots__ = ("_bind", "_choose", "_original")

    def __init__(self, original: Any, choose: Any) -> None:
        self._original = original
        self._bind = original.__get__
        self._choose = choose

    def __get__(self, tensor: Any, owner: Any = None) -> Any:
        if tensor is None:
            return self._original
        return self._choose(tensor, self._original) or self._bind(tensor, owner)


class Read(Method):
    """A method that reads; what an optimizer asks is its own affair.

    Adam asks for a counter of every parameter in every step.
    """

    __slots__ = ("_clock",)

    def __init__(self, original: Any, choose: Any, clock: Clock) -> None:
        super().__init__(original, choose)
        self._clock = clock

    def __get__(self, tensor: Any, owner: Any = None) -> Any:
        if tensor is None:
            return self._original
        clock = self._clock
        if clock.phase == OPTIMIZER and not clock.scaling:
            return self._bind(tensor, owner)
        return self._choose(tensor, self._original) or self._bind(tensor, owner)


class Reader:
    """Decides what a tensor's method is."""

    def __init__(self, probe: Probe) -> None:
        self._probe = probe
        self._clock = probe.clock
        self._steps = probe.steps
        self._sites = probe.sites
        self._is_user = probe.places.is_user
        self._compiling = probe.guard.compiling
        self._plain = (probe.torch.Tensor, probe.torch.nn.Parameter)
        self._ident = threading.get_ident
        self._seen = probe.guard.outside.needed
        self._outside = probe.guard.outside
        self._device = probe.device_clock
        self._mark = probe.guard.safely(HOOK, self._device.mark)

    def _on_host(self, tensor: Any) -> bool:
        if not self._seen():
            return bool(tensor.is_cpu)
        with self._outside:
            return bool(tensor.is_cpu)

    def _asked(self, tensor: Any) -> bool:
        """Whether the training asks, and a tensor that may be asked in turn."""
        clock = self._clock
        plain = not OWNS[clock.phase] and type(tensor) in self._plain
        return plain and not self._compiling() and self._ident() == clock.ident

    def of(self, name: str, tensor: Any, original: Any) -> Any:
        """A read: None leaves it to torch."""
        if not self._asked(tensor):
            return None
        if self._on_host(tensor):
            frame = sys._getframe(3)
            if self._is_user(frame.f_code):
                self._sites.at("sync", "Tensor." + name, frame).add(0.0, self._steps.index)
            return None
        return functools.partial(self._read, name, original, tensor)

    def wait(self, name: str, tensor: Any, original: Any) -> Any:
        """What waits on a device, and is nothing worth counting on the host."""
        waits = self._asked(tensor) and not self._on_host(tensor)
        return functools.partial(self._read, name, original, tensor) if waits else None

    def _read(self, name: str, original: Any, tensor: Any, *args: Any, **kwargs: Any) -> Any:
        clock = self._clock
        frame = sys._getframe(1)
        before = clock.switch(SYNC)
        start = clock.mark
        try:
            return original(tensor, *args, **kwargs)
        finally:
            clock.switch(before)
            self._note(name, frame, clock.mark - start)

    def _note(self, name: str, frame: FrameType | None, seconds: float) -> None:
        inner = frame
        while inner is not None and inner.f_code.co_filename.endswith(_INNER):
            inner = inner.f_back
        if inner is not None and self._is_user(inner.f_code):
            self._clock.row[_READS] += 1.0
        self._sites.at("sync", "Tensor." + name, frame, tensor=True).add(seconds, self._steps.index)

    def move(self, name: str, tensor: Any, original: Any) -> Any:
        """A `to` or `cuda`: what it was shows when it is done."""
        return functools.partial(self._move, name, original, tensor) if self._asked(tensor) else None

    def _move(self, name: str, original: Any, tensor: Any, *args: Any, **kwargs: Any) -> Any:
        plain = bool, self._probe.torch.dtype
        timed = (  # it may end on a device: it names one, or another tensor
            self._device.timing
            and self._on_host(tensor)
            and (name != "to" or any(not isinstance(value, plain) for value in (*args, *kwargs.values())))
            and self._device.on_stream(None)  # a copy on a stream beside the training's hides behind its work
        )
        if timed:
            self._mark(self._clock.phase)
        start = perf_counter()
        moved = original(tensor, *args, **kwargs)
        seconds = perf_counter() - start
        if moved is not tensor and type(moved) in self._plain:
            here, there = self._on_host(tensor), self._on_host(moved)
            if here and not there:
                self._clock.charge(TRANSFER, seconds)
                if timed:  # what the device does between the two edges is the copy
                    self._mark(TRANSFER)
                site = self._sites.at("transfer", "Tensor." + name, sys._getframe(1), tensor=True)
                site.add(seconds, self._steps.index)
            elif there and not here:
                self._clock.charge(SYNC, seconds)
                self._note(name, sys._getframe(1), seconds)
        return moved
