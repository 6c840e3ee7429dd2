"""What the program logs itself: names and numbers, as it hands them to its tracker, or else prints them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

from ..tensor_reads import Budget
from ..wire.masking import mask_cut
from . import SHARE, Look

if TYPE_CHECKING:
    from ..probe import Probe

HOOK = "logged"
_FIRST = 16
"""Calls that are read whatever they cost."""
_NAMES = 64
"""Names that are kept."""
_LONGEST = 64
"""Characters of one."""
_POINTS = 32
"""Points of one; of more every second one goes."""
_TEXT = 512
"""Characters of a text."""
_WORDS = ("", "print", "logging")
"""What speaks to people: it counts as long as nothing is given to a tracker, and costs it nothing."""
_SAID = re.compile(
    r"(?<![\w/-])((?:[a-z][\w/-]* ){0,2}[a-z][\w/-]*)['\"]? *[:=]? *(-?\d+\.?\d*(?:e[+-]?\d+)?)(?![\w.%/])",
    re.IGNORECASE,
)
"""A name of at most three words, and its number."""


class Logged(Look):
    """The numbers so far, thinned out."""

    def again(self) -> None:
        """For a new recording nothing has been logged."""
        super().again()
        self._budgets = [self._budget, Budget(SHARE)]
        self._series: dict[str, list[Any]] = {}
        self._by = ""
        self._place: dict[str, Any] = {}

    def heard(self, by: str, args: Any, kwargs: Any) -> None:
        """A call that logs."""
        self._budget = self._budgets[by in _WORDS]
        count = self._budget.count + 1
        cheap = count <= _FIRST or self._budget.due()
        if cheap and (by not in _WORDS or self._by in _WORDS):
            with self:
                given = (*args, *kwargs.values())
                if by == "logging":
                    record = args[1]
                    given = (vars(record).get("msg"),)
                self._read(by, given)
            if not count & (count - 1):
                self.tell()

    def _read(self, by: str, given: tuple[Any, ...]) -> None:
        """Keep the numbers of one call."""
        read = islice(_pairs(given), 2 * _NAMES)
        pairs = [(name, self._number(value)) for name, value in read]
        numbers = [(name, number) for name, number in pairs if type(name) is str and number is not None]
        tracker_after_words = self._by in _WORDS and by not in _WORDS
        if numbers and (not self._by or tracker_after_words):
            self._by = by
            self._series = {}
        if numbers and by == self._by:
            self._place = self.place()
        for name, number in numbers:
            self._add(name, number)

    def _add(self, name: str, value: float) -> None:
        """A point of a name: `[name, calls, points, each how many calls there is a point]`."""
        one = self._series.get(name)
        if one is None:
            if len(self._series) >= _NAMES:
                return
            one = self._series[name] = [mask_cut(name, _LONGEST), 0, [], 1]
        _, count, points, stride = one
        one[1] += 1
        if count % stride == 0:
            points.append((self._probe.steps.index, value))
            if len(points) >= _POINTS:
                one[2] = points[::2]
                one[3] = 2 * stride

    def _number(self, value: Any) -> float | None:
        """A number of the host's; a device's is not waited for."""
        kind = type(value)
        if kind is self._probe.torch.Tensor:
            if value.is_cpu and value.numel() == 1 and not value.is_complex():
                return float(value.detach())
            return None
        is_numpy = kind.__module__ == "numpy" and getattr(value, "ndim", 1) == 0 and value.dtype.kind in "fiu"
        if is_numpy or kind in (int, float):
            return float(value)
        return None

    def tell(self) -> None:
        """Write what is known by now."""
        if self._series:
            series = [one[:3] for one in self._series.values()]
            self.write("logged", {"by": self._by, "series": series, **self._place})


def _pairs(given: tuple[Any, ...]) -> Iterator[tuple[Any, Any]]:
    """Names and what may be their numbers: in a mapping, one after the other, or in a text."""
    for each, after in zip(given, (*given[1:], None)):
        if type(each) is dict:  # one of the program's own class would run its code
            yield from each.items()
        elif type(each) is str:
            yield each.rstrip(" :="), after
            yield from ((name, float(number)) for name, number in _SAID.findall(each[:_TEXT]))


def install(probe: Probe) -> None:
    """Hear what trackers are given, and what is printed (hooks/calls.py)."""
    logged = probe.training[HOOK] = Logged(probe)
    probe.logs = probe.guard.reading(HOOK, logged.heard)
