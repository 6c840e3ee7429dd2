"""Memory over the run: the device's allocator at the ends of steps, and what grows with them."""

from __future__ import annotations

import sys
from time import perf_counter
from types import FrameType
from typing import TYPE_CHECKING, Any

from .clock import PROBE
from .growing_containers import HOOKS, Census, Holder, Holders, grown, growth, row
from .table import AT
from .tensor_reads import Budget, capturing

if TYPE_CHECKING:
    from .probe import Probe

_ALLOCATED, _RESERVED, _PEAK = AT["allocated"], AT["reserved"], AT["peak"]
_WARM = 20
"""Steps before memory is expected to stay as it is."""
_HOST, _DEVICE = 16 << 20, 64 << 20
"""Bytes of growth that are worth a look (or a hundredth of what is there)."""
_EXPLAINED = 0.3
"""Share of the growth that a container with a name must hold, or all objects are counted."""
_TELLING = 1 << 20
"""Bytes of a growing container that are told although the process does not grow by much."""
_COUNTS = 4


class Memory:
    """Watches the growth of one process."""

    def __init__(self, probe: Probe) -> None:
        self._probe = probe
        self.renew()

    def renew(self) -> None:
        """In a new process."""
        self.rss = 0.0
        """Resident bytes, as the sampler saw them last."""
        self._host = Growth(_HOST)
        self._device = Growth(_DEVICE)
        self._budget = Budget(0.001)
        self._holders: Holders | None = None
        """The first look..."""
        self._between: Holders | None = None
        """...and the last one."""
        self._next = _WARM + 4
        self._census: Census | None = None
        self._counts = 0
        self._retries = 0

    def fill(self) -> None:
        """A step is about to end: the allocator's state goes into its row."""
        torch = self._probe.torch
        if not torch.cuda.is_initialized() or not self._budget.due():
            return
        if capturing(torch, torch.device("cuda")):
            return
        start = perf_counter()
        stats = torch.cuda.memory_stats_as_nested_dict()
        made = self._probe.clock.row
        allocated = stats["allocated_bytes"]["all"]
        made[_ALLOCATED] = allocated["current"]
        made[_PEAK] = allocated["peak"]
        made[_RESERVED] = stats["reserved_bytes"]["all"]["current"]
        self._device.note(allocated["current"], self._probe.steps.index)
        retries, ooms = int(stats.get("num_alloc_retries", 0)), int(stats.get("num_ooms", 0))
        if retries + ooms > self._retries:
            self._retries = retries + ooms
            fields = {"step": self._probe.steps.index, "kind": "retries", "retries": retries, "ooms": ooms}
            self._probe.record("memory", fields)
        self._budget.charge(perf_counter() - start)

    def ended(self) -> None:
        """A step has ended."""
        step = self._probe.steps.index
        if self.rss:
            self._host.note(self.rss, step)
        if step >= self._next or self._host.grew or self._device.grew:
            self._next = max(self._next, 2 * step if step >= self._next else self._next)
            before = self._probe.clock.switch(PROBE)
            self._look(sys._getframe(1))
            self._probe.clock.switch(before)

    def _look(self, frame: FrameType | None, end: bool = False) -> None:
        grew = self._host.grew or self._device.grew
        device = "cuda" if self._device.grew else "cpu"
        self._host.grew = self._device.grew = False
        now = Holders(self._probe, frame)
        first, self._holders = self._holders, self._holders or now
        between = self._between or now
        if now.step - between.step >= _WARM or between is now:
            self._between = now
        if first is None or now.step - first.step < _WARM:
            return
        holders = sorted(
            grown(first, now, between), key=lambda holder: (not holder.graph, -holder.size * holder.length)
        )
        held = sum(holder.size * holder.length for holder in holders)
        explained = held >= _EXPLAINED * self._more(device) or any(holder.graph for holder in holders)
        rows = [row(self._probe, holder) for holder in holders[:8]]
        if grew and not explained and not end:
            rows += self._count()
        if rows and (grew or end or self._worth(holders)):
            fields = {"step": now.step, "kind": "census", "device": device, "since": first.step}
            more = {"grew": self._more(device), "rss": self.rss or None, "growth": rows}
            self._probe.record("memory", {**fields, **more})

    def _more(self, device: str) -> float:
        """Bytes by which the process, or what it holds on the device, has grown."""
        return (self._device if device == "cuda" else self._host).more

    def _worth(self, holders: list[Holder]) -> bool:
        return any(
            holder.graph or holder.contents == HOOKS or holder.size * holder.length >= _TELLING for holder in holders
        )

    def _count(self) -> list[list[Any]]:
        """Growth by type since the first count; the first gives none."""
        if self._counts >= _COUNTS:
            return []
        self._counts += 1
        now = Census(self._probe)
        if self._census is None:
            self._census = now
            return []
        return growth(self._census, now)

    def end(self) -> None:
        """The process ends: what grew to the last is told."""
        if self._probe.steps.index >= 2 * _WARM:
            self._look(None, end=True)


class Growth:
    """Tells when something has become larger by enough, and again at doubling distances."""

    def __init__(self, least: float) -> None:
        self._least = least
        self._base = 0.0
        self._next = 0.0
        self.more = 0.0
        """By how much it is larger than after warming up."""
        self.grew = False

    def note(self, value: float, step: int) -> None:
        """A value, at a step."""
        if step < _WARM:
            return
        if not self._base:
            self._base = value
            # The first growth is warming up, too: it takes a second one.
            self._next = value + 2 * max(self._least, 0.01 * value)
        self.more = value - self._base
        if value >= self._next:
            self.grew = True
            self._next = value + max(self.more, self._least)
