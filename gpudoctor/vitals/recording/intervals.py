"""Sets of time intervals: what a trace's events cover, without counting anything twice."""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence

Intervals = list[tuple[float, float]]
"""Sorted, not touching each other."""
_MERGE = 1 << 16
"""Intervals that are held before they are merged."""


def union(spans: Iterable[tuple[float, float]], gap: float = 0.0) -> Intervals:
    """What the spans cover together; gaps of at most `gap` are closed."""
    merged: Intervals = []
    for begin, end in sorted(spans):
        if merged and begin <= merged[-1][1] + gap:
            if end > merged[-1][1]:
                merged[-1] = (merged[-1][0], end)
        elif end > begin:
            merged.append((begin, end))
    return merged


def without(spans: Intervals, others: Intervals) -> Intervals:
    """The parts of `spans` that `others` do not cover."""
    left: Intervals = []
    place = 0
    for begin, end in spans:
        while place < len(others) and others[place][1] <= begin:
            place += 1
        at, index = begin, place
        while index < len(others) and others[index][0] < end:
            if others[index][0] > at:
                left.append((at, others[index][0]))
            at = max(at, others[index][1])
            index += 1
        if at < end:
            left.append((at, end))
    return left


def covered(spans: Intervals, begin: float, end: float) -> float:
    """How much of a window is covered."""
    first = bisect_right(spans, begin, key=lambda span: span[1])
    last = bisect_left(spans, end, key=lambda span: span[0])
    return sum(min(stop, end) - max(start, begin) for start, stop in spans[first:last])


def inside(points: Sequence[float], begin: float, end: float) -> int:
    """How many of sorted points lie in a window."""
    return bisect_left(points, end) - bisect_left(points, begin)


class Spans:
    """Intervals as they come. They are merged now and then, so that nested ones take no memory."""

    __slots__ = ("_begins", "_ends", "_merge_at")

    def __init__(self) -> None:
        self._begins = array("d")
        self._ends = array("d")
        self._merge_at = _MERGE

    def __len__(self) -> int:
        return len(self._begins)

    def add(self, begin: float, end: float) -> None:
        """One more interval."""
        self._begins.append(begin)
        self._ends.append(end)
        if len(self._begins) >= self._merge_at:
            merged = self.union()
            self._begins = array("d", (span[0] for span in merged))
            self._ends = array("d", (span[1] for span in merged))
            self._merge_at = max(_MERGE, 2 * len(merged))

    def union(self, gap: float = 0.0) -> Intervals:
        """What they cover together; gaps of at most `gap` are closed."""
        return union(zip(self._begins, self._ends, strict=True), gap)
