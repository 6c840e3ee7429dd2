"""How the probe reads tensors: outside the program's modes, at a measured cost, and never by waiting."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any

# What the probe must know of a device before it touches it: a graph in the making, and a parent's device.

_kept: list[Any] = []


def capturing(torch: Any, device: Any) -> bool:
    """Whether a graph is being captured on a device: whatever is called then becomes part of it."""
    if device.type == "cpu":
        return False
    asked = getattr(torch.get_device_module(device), "is_current_stream_capturing", None)
    return asked is not None and bool(asked())


def keep(*things: Any) -> None:
    """In a forked child: never free what is its parent's device's. Who frees pinned memory there dies."""
    _kept.append(things)


# How often something may be read: its cost is measured, and kept to a share of the time.


class Budget:
    """Spends at most a share of the time."""

    __slots__ = ("_next", "_share", "count", "spent")

    def __init__(self, share: float) -> None:
        self._share = share
        self._next = 0.0
        self.count = 0
        """Readings so far."""
        self.spent = 0.0
        """Seconds that they took."""

    def due(self) -> bool:
        """Whether a reading may be taken now."""
        return perf_counter() >= self._next

    def charge(self, seconds: float) -> None:
        """A reading was taken and took so long."""
        self.count += 1
        self.spent += seconds
        self._next = perf_counter() + seconds / self._share


# Our own questions to tensors, outside the program's modes and profilers: they count what the program does.


class Outside:
    """A context in which function modes, dispatch modes and the profiler's callbacks see nothing of us."""

    def __init__(self, torch: Any) -> None:
        core = torch._C
        functions, dispatches = core._len_torch_function_stack, core._len_torch_dispatch_stack
        profiles = core._autograd._profiler_enabled
        self.needed: Callable[[], Any] = lambda: functions() or dispatches() or profiles()
        """Whether anything would see us. Asked in every step, so nothing is looked up."""
        self._record = core._autograd._enable_record_function
        self._contexts = core.DisableTorchFunction, core._DisableTorchDispatch
        self._open: list[list[Any]] = []

    def __enter__(self) -> None:
        opened: list[Any] = []
        self._open.append(opened)
        for kind in self._contexts:
            context = kind()
            context.__enter__()
            opened.append(context)
        self._record(False)

    def __exit__(self, *error: Any) -> None:
        opened = self._open.pop()
        if not self._open:
            self._record(True)
        for context in reversed(opened):
            context.__exit__(*error)


# Numbers that a device computed, read when they have arrived: nothing ever waits for them.
#
# A single number is copied into a slot of a small buffer on its device; a full (or old) buffer, and a vector
# at once, is copied to the host without blocking. An event tells when that is done; it is asked at the ends
# of later steps.

SLOTS = 64
PATIENCE = 0.5
"""Seconds after which a buffer is sent to the host although it has room."""
FLIGHTS = 16
"""Copies that may be on their way at a time."""


class Late:
    """One device's numbers on their way to the host."""

    def __init__(self, torch: Any, device: Any) -> None:
        self._torch = torch
        self._device = device
        self._slots: Any = None
        self._notes: list[Callable[[float], None]] = []
        self._since = 0.0
        self._flights: list[tuple[Any, Any, Callable[[list[float]], None]]] = []
        self._spare: list[Any] = []

    def put(self, number: Any, note: Callable[[float], None]) -> None:
        """Take a tensor of one element; `note(value)` is called when it is known, if there was room."""
        place = len(self._notes)
        if place >= SLOTS:
            return
        if self._slots is None:
            self._slots = self._torch.zeros(SLOTS, device=self._device)
        self._slots[place].copy_(number.detach().reshape(()), non_blocking=True)
        if not place:
            self._since = perf_counter()
        self._notes.append(note)

    def send(self, vector: Any, note: Callable[[list[float]], None]) -> None:
        """Take a vector of floats; `note(values)` is called when they are known, if there was room."""
        if len(self._flights) >= FLIGHTS:
            return
        torch = self._torch
        size = 1 << max(6, (vector.numel() - 1).bit_length())
        host = next((spare for spare in self._spare if spare.numel() == size), None)
        here = self._device.type == "cpu"
        if host is None:
            host = torch.empty(size, pin_memory=not here)
        else:
            self._spare = [spare for spare in self._spare if spare is not host]
        event = _Done() if here else torch.get_device_module(self._device).Event()
        host[: vector.numel()].copy_(vector.detach(), non_blocking=True)
        event.record()
        count = vector.numel()
        self._flights.append((host, event, lambda values: note(values[:count])))

    def poll(self) -> None:
        """At the end of a step: hand out what has arrived, send what is full."""
        while self._flights and self._flights[0][1].query():
            host, _, note = self._flights.pop(0)
            self._spare.append(host)
            note(host.tolist())
        if self._notes and (len(self._notes) >= SLOTS or perf_counter() - self._since >= PATIENCE):
            notes, self._notes = self._notes, []
            self.send(self._slots, lambda values: _hand_out(notes, values))


def _hand_out(notes: list[Callable[[float], None]], values: list[float]) -> None:
    for note, value in zip(notes, values):
        note(value)


class _Done:
    """The event of a copy from the host to the host."""

    def record(self) -> None:
        """The copy was made."""

    def query(self) -> bool:
        """It is done."""
        return True
