"""The device's own time: events at the edges of phases, read when they have passed and never waited for.

On a GPU the host only launches the work, so a phase of the host is the time of its launches, and the device's
time shows wherever the host first blocks. In watched steps an event with timing goes into the program's stream
at every change of phase. When the device has passed the last one of a step, at the end of some later step, the
times between them are known on the device's clock, and with the hosts' times of the same edges the moments at
which the device had nothing to do.

The two clocks are aligned by causality: no event is passed before it was recorded, and one that is recorded
while the stream is empty is passed at once. So the greatest difference of the two times is the offset, as far
as the stream was empty now and then; what the host has waited for bounds it from the other side.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import TYPE_CHECKING, Any

from .clock import BACKWARD, COLLECTIVE, FORWARD, OPTIMIZER, PROBE, SYNC, TRANSFER
from .table import AT
from .tensor_reads import capturing, keep

if TYPE_CHECKING:
    from .probe import Probe

EDGES = 256
"""Edges of one step; a step with more is left out."""
PENDING = 16
"""Steps whose events are on their way."""
DRIFT = 2e-5
"""Seconds a second by which two clocks may part; a crystal's tolerance is 20 ppm or less."""

_BUSY, _IDLE = AT["device_busy"], AT["device_idle"]
_COLUMN = {
    TRANSFER: AT["device_transfer"],
    FORWARD: AT["device_forward"],
    BACKWARD: AT["device_backward"],
    OPTIMIZER: AT["device_optimizer"],
    COLLECTIVE: AT["device_collective"],
}


class DeviceClock:
    """Times one process's steps on its device."""

    def __init__(self, probe: Probe) -> None:
        self._probe = probe
        self._clock = probe.clock
        self.edge: Callable[[int, float], None] = probe.guard.safely("device", self._edge)
        """A phase has ended, at a time."""
        self.ended: Callable[[int, int], None] = probe.guard.safely("device", self._ended)
        """A step has ended in a phase; the second is its number."""
        self.met: list[Callable[[], None]] = []
        """Called once, when the training has been seen to use a device."""
        self._start()

    def _start(self) -> None:
        self._clock.device = None
        self._device: Any = None
        self.module: Any = None
        """`torch.cuda`, or what the device has in its place; None without a device."""
        self._stream: Any = None
        """The one that the step in the making began on."""
        self._reduces = False
        """Whether the stream waits for gradients until the phase ends."""
        self._spare: list[Any] = []
        self._edges: list[tuple[int, float, Any]] | None = None
        """Of the step in the making: the phase that ended, the host's time, the event."""
        self._pending: list[tuple[int, list[tuple[int, float, Any]]]] = []
        self._anchor: Any = None
        self._base = 0.0
        """Seconds on the device's clock at the anchor."""
        self._low = float("-inf")
        self._high = float("inf")
        self._aligned = 0.0
        """Host's time of the last alignment."""

    def renew(self) -> None:
        """In a forked child: the parent's events belong to a device that the child does not have."""
        keep(self._spare, self._edges, self._pending, self._anchor)
        self._start()

    def on(self, device: Any) -> None:
        """Numbers of the training lie on this device: from the next step on it is timed."""
        if self._device is not None or device.type == "cpu":
            return
        self._device = device
        module = self.module = self._probe.torch.get_device_module(device)
        if self._capturing() or not (hasattr(module, "Event") and hasattr(module, "current_stream")):
            self._device = None
            return
        met, self.met = self.met, []
        for call in met:
            call()
        self._anchor = self._event()
        self._anchor.record()
        self._clock.device = self
        self._clock.quick = False

    def _capturing(self) -> bool:
        return capturing(self._probe.torch, self._device)

    def _event(self) -> Any:
        return self._spare.pop() if self._spare else self.module.Event(enable_timing=True)

    def finish(self) -> bool:
        """Wait until the device has done all that was launched; whether there is one, and it could be asked."""
        if self._device is None or self._capturing():
            return False
        self.module.synchronize()
        return True

    def _edge(self, phase: int, now: float) -> None:
        edges = self._edges
        if edges is None:
            return
        if len(edges) >= EDGES or self._capturing():
            self._drop()
            return
        if self._reduces:
            self._reduces, phase = False, COLLECTIVE
        event = self._event()
        event.record(self._stream)  # the current one may be a stream beside it, for copies or collectives
        edges.append((phase, now, event))
        self._clock.charge(PROBE, perf_counter() - now)  # a full queue blocks here, too

    @property
    def timing(self) -> bool:
        """Whether the step in the making is timed."""
        return self._edges is not None

    def on_stream(self, stream: Any) -> bool:
        """Whether a stream is the training's; None is the current one."""
        return bool((self.module.current_stream() if stream is None else stream) == self._stream)

    def mark(self, phase: int) -> None:
        """A part of the host's phase has ended, which was this one on the device."""
        if self._edges is not None:
            self._edge(phase, perf_counter())

    def reduces(self) -> None:
        """A backward pass has launched all of its own: to its end the stream waits for gradients."""
        if self._edges is not None:
            self._edge(BACKWARD, perf_counter())
            self._reduces = self._edges is not None

    def _drop(self) -> None:
        """The step in the making is not timed."""
        if self._edges is not None:
            self._spare += [event for _, _, event in self._edges]
            self._edges = None
            self._reduces = False

    def _ended(self, phase: int, step: int) -> None:
        """Look what the device has passed; the next step is timed where it is watched."""
        edges = self._edges
        if edges is not None:
            self._edge(phase, perf_counter())
            if self._edges is not None:
                self._pending.append((step, edges))
            self._edges = None
        if self._capturing():
            return
        while self._pending and self._pending[0][1][-1][2].query():
            self._tell(*self._pending.pop(0), perf_counter())
        if not self._clock.light and len(self._pending) < PENDING:
            self._edges = []
            self._stream = self.module.current_stream()
            self._edge(phase, perf_counter())

    # -- what the edges tell

    def _tell(self, step: int, edges: list[tuple[int, float, Any]], seen: float) -> None:
        """The device has passed all edges of a step; the host knew so at `seen`."""
        own = [self._base + self._anchor.elapsed_time(event) / 1e3 for _, _, event in edges]
        self._align(edges, own, seen)
        self._spare.append(self._anchor)
        self._anchor, self._base = edges[-1][2], own[-1]
        self._spare += [event for _, _, event in edges[:-1]]
        offset = min(self._low, self._high)
        passed = [max(at + offset, host) for at, (_, host, _) in zip(own, edges)]
        idle = ours = 0.0
        spent: dict[int, float] = {}
        for k in range(1, len(edges)):
            phase, host, _ = edges[k]
            if phase == PROBE:  # our own readings: no time of the program's
                ours += max(0.0, passed[k] - passed[k - 1])
                continue
            # After the host's edge everything was launched: the device works until it passes it.
            idle += max(0.0, host - passed[k - 1])
            spent[phase] = spent.get(phase, 0.0) + max(0.0, passed[k] - passed[k - 1])
        self._put(step, _IDLE, idle)
        self._put(step, _BUSY, max(0.0, passed[-1] - passed[0] - ours - idle))
        for phase, column in _COLUMN.items():
            if phase in spent:
                self._put(step, column, spent[phase])

    def _align(self, edges: list[tuple[int, float, Any]], own: list[float], seen: float) -> None:
        """Learn how the device's clock lies to the host's."""
        slack = DRIFT * max(0.0, seen - self._aligned)
        self._aligned = seen
        low, high = self._low - slack, min(self._high + slack, seen - own[-1])
        for k, (phase, host, _) in enumerate(edges):
            low = max(low, host - own[k])
            if k and phase == SYNC:  # the host has waited for what came before
                high = min(high, host - own[k - 1])
        self._low, self._high = low, high

    def _put(self, step: int, column: int, value: float) -> None:
        """A number of a step that is over; where its row has been written, the row in the making has it."""
        if not self._probe.table.patch(step, column, value):
            row = self._clock.row
            row[column] = value if row[column] != row[column] else row[column] + value
