"""How often something may be read: its cost is measured, and kept to a share of the time."""

from __future__ import annotations

from time import perf_counter


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
