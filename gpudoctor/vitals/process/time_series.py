"""Series that stay small: the last ticks as they are, a whole watch thinned out; those of the machine."""

from collections import deque
from typing import Any

from gpudoctor.model.signs.process import NAN, HostWindow, Series
from gpudoctor.vitals.host.meter import HostMeter


class RollingSeries:
    """The last values, one a tick."""

    def __init__(self, length: int = 120) -> None:
        self._rows: deque[tuple[float, float]] = deque(maxlen=length)

    def add(self, t: float, value: float | None) -> None:
        """A value at a time; None where it is not known."""
        self._rows.append((t, NAN if value is None else float(value)))

    def series(self) -> Series:
        """The values so far; empty when none was ever known."""
        if all(value != value for _, value in self._rows):
            return Series()
        return Series(t=tuple(t for t, _ in self._rows), values=tuple(value for _, value in self._rows))


class DownsampledSeries:
    """A whole watch in at most `limit` points: when they are used up every second one goes, and later ones are
    taken half as often."""

    def __init__(self, limit: int = 480) -> None:
        self._limit = limit
        self._rows: list[tuple[float, float]] = []
        self._every, self._turn = 1, 0
        self._newest: tuple[float, float] | None = None

    def add(self, t: float, value: float | None) -> None:
        """A value at a time; unknown ones are left out."""
        if value is None or value != value:
            return
        self._newest = (t, float(value))
        if self._turn % self._every == 0:
            self._rows.append(self._newest)
            if len(self._rows) >= self._limit:
                self._rows = self._rows[::2]
                self._every *= 2
        self._turn += 1

    def series(self) -> Series:
        """The points so far, the newest value last."""
        rows = self._rows
        if self._newest is not None and (not rows or rows[-1] != self._newest):
            rows = [*rows, self._newest]
        return Series(t=tuple(t for t, _ in rows), values=tuple(value for _, value in rows))


# The machine beside the watched job: what its meter has shown, as histories.

_RATES = ("cpu", "io_wait", "disk_read", "disk_write")


class HostHistory:
    """One row a tick."""

    def __init__(self, pid: int) -> None:
        self._meter = HostMeter(pid)
        limits = self._meter.limits()
        self._machine_cpus = float(limits["machine_cpus"] or 1)
        self._cpus = float(limits["cpus"] or 1)
        self._recent = {name: RollingSeries() for name in _RATES}
        self._memory = DownsampledSeries()

    def tick(self, t: float) -> HostWindow:
        """The machine now."""
        sample = self._meter.sample(t)
        self._memory.add(t, sample["memory"])
        for name, history in self._recent.items():
            history.add(t, sample.get(name))
        made: dict[str, Any] = {name: history.series() for name, history in self._recent.items()}
        return HostWindow(
            cpus=self._cpus,
            machine_cpus=self._machine_cpus,
            memory_total=self._meter.memory_total,
            memory=self._memory.series(),
            **made,
        )
