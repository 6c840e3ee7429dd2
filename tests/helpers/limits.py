"""Where the thresholds of checks decide, in `tests/checks/limits.txt`: a case of each, and what is found on both sides.

A line is `CODE name default | value: found with the threshold a little below it, at it, a little above it | case`.
Where as much is found with the same severity, the words of its detail follow: `1 error (rate)`.
`make words` writes the file anew from the tests; a case then asserts its line when its test examines it.
"""

import fcntl
import math
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache, partial
from itertools import product
from pathlib import Path

from gpudoctor.engine.registry import load_registry
from gpudoctor.model import Check, Finding, Patient, Unavailable
from gpudoctor.model.check import Threshold

FILE = Path(__file__).parent.parent / "checks" / "limits.txt"
RENEW = bool(os.environ.get("GPUDOCTOR_UPDATE_WORDS"))
Examine = Callable[..., list[Finding]]
Overrides = dict[str, float]
_calls: Counter[tuple[str, str]] = Counter()
_met: dict[str, str] = {}
"""The line of the best case of each threshold while the file is written anew."""
_NEAR = 1e-6
"""How far beside a value its sides are, as a share of it."""


class _Limit(float):
    """A threshold, or some times a threshold, that keeps which one would equal what it is compared with."""

    seen: "list[float]"
    times: float

    def __new__(cls, value: float, seen: "list[float]", times: float = 1.0) -> "_Limit":
        made = super().__new__(cls, value)
        made.seen, made.times = seen, times
        return made

    def __mul__(self, other: float) -> "_Limit":
        return _Limit(float(self) * other, self.seen, self.times * other)

    __rmul__ = __mul__

    def _keep(self, other: float) -> None:
        if not isinstance(other, int | float) or not self.times:
            return
        near = float(other) / self.times
        for value in (near, math.nextafter(near, math.inf), math.nextafter(near, -math.inf)):
            if value * self.times == other and value not in self.seen:
                self.seen.append(value)
                return

    def __lt__(self, other: float) -> bool:
        self._keep(other)
        return float(self) < other

    def __le__(self, other: float) -> bool:
        self._keep(other)
        return float(self) <= other

    def __gt__(self, other: float) -> bool:
        self._keep(other)
        return float(self) > other

    def __ge__(self, other: float) -> bool:
        self._keep(other)
        return float(self) >= other


def case_of(check: type[Check]) -> str:
    """The name of what is examined next: the test, and how often it asked the check before."""
    test = os.environ["PYTEST_CURRENT_TEST"].rpartition(" ")[0].removeprefix("tests/checks/")
    _calls[str(check.code), test] += 1
    return f"{test} {_calls[str(check.code), test]}"


def compare(examine: Examine, check: type[Check], patient: Patient, overrides: Overrides, case: str) -> None:
    """Assert what the file says of this case, or look where the thresholds of the check decide it."""
    if RENEW:
        _look(examine, check, patient, overrides, case)
        return
    for name, value, expected in _known().get((str(check.code), case), ()):
        deep = any("(" in item for item in expected)
        at = partial(_found, examine, check, patient, overrides, name)
        if expected[1] != "-":
            seen: list[float] = []
            default = next(item.default for item in check.thresholds if item.name == name)
            at(False, _Limit(overrides.get(name, default), seen))
            near = [item for item in seen if math.isclose(item, value, rel_tol=_NEAR / 2)]
            value = min(near, key=lambda item, value=value: abs(item - value), default=value)  # type: ignore[misc]
        found = _sides(partial(at, deep), value)
        same = all(old in ("-", new) for old, new in zip(expected, found, strict=True))
        assert same, f"{check.code}.{name} at {value}: limits.txt has {expected}, not (make words) {found}"


def _look(examine: Examine, check: type[Check], patient: Patient, overrides: Overrides, case: str) -> None:
    for item in check.thresholds:
        heading = _heading(check, item)
        at = partial(_found, examine, check, patient, overrides, item.name)
        seen: list[float] = []
        at(False, _Limit(overrides.get(item.name, item.default), seen))
        for deep, value in product((False, True), seen[:8] or _searched(partial(at, False))):
            below, exact, above = _sides(partial(at, deep), value)
            if below != above and "an error" not in (below, exact, above):
                text = f"{heading} | {value:.12g}: {below}, {exact if value in seen else '-'}, {above} | {case}"
                _met[heading] = min(text, _met.get(heading, text), key=_rank)


def _rank(line: str) -> tuple[bool, float, str]:
    """First the cases that show what is found at the value itself, then the nearest ones to the threshold."""
    heading, sides, case = line.split(" | ")
    if not case:
        return True, math.inf, ""
    default, value = float(heading.rpartition(" ")[2]), float(sides.partition(": ")[0])
    away = abs(math.log(value / default)) if value > 0 < default else math.inf
    return ", -," in sides or "(" in sides, away, case


def _searched(at: Callable[[float], str]) -> Iterator[float]:
    """The value where what is found changes, where nothing is compared with the threshold itself."""
    low, high = 1e-9, 1e15
    if (least := at(low)) == at(high):
        return
    while high / low > 1.0 + _NEAR / 10:
        middle = (low * high) ** 0.5
        low, high = (middle, high) if at(middle) == least else (low, middle)
    yield high


def _sides(at: Callable[[float], str], value: float) -> list[str]:
    """What is found with a threshold a little below a value, at it, and a little above it."""
    far = abs(value) * _NEAR or 1e-9
    return [at(limit) for limit in (value - far, value, value + far)]


def _found(
    examine: Examine, check: type[Check], patient: Patient, overrides: Overrides, name: str, deep: bool, limit: float
) -> str:
    """What is found, in short: `1 note + 2 warning`."""
    try:
        found = examine(check, patient, **{**overrides, name: limit})
    except Unavailable:
        return "not examined"
    except (ArithmeticError, LookupError, TypeError, ValueError):  # of a threshold that nobody would choose
        return "an error"
    counted = Counter(item.severity.value for item in found)
    said = " + ".join(f"{count} {severity}" for severity, count in sorted(counted.items())) or "nothing"
    details = [item.detail for item in found if item.detail is not None]
    values = {str(value) for item in details for value in item.placeholders().values()}
    words = sorted(word for word in values if re.fullmatch(r"[A-Za-z_-]{1,20}", word))
    return f"{said} ({' '.join(words)})" if deep else said


def _heading(check: type[Check], item: Threshold) -> str:
    return f"{check.code} {item.name} {item.default:.12g}"


def headings() -> list[str]:
    """Code, name and default of the thresholds of our checks."""
    ours = [check for check in load_registry().checks.values() if check.__module__.startswith("gpudoctor_checks.")]
    return [_heading(check, item) for check in ours for item in check.thresholds]


def write() -> None:
    """Add what was met to the file: of each threshold the best case."""
    if not RENEW or not _met:
        return
    with FILE.open("a", encoding="utf-8") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        best = {heading: f"{heading} | no case | " for heading in headings()} | _met
        for line in FILE.read_text(encoding="utf-8").splitlines():
            heading = line.partition(" | ")[0]
            best[heading] = min(line, best.get(heading, line), key=_rank)
        FILE.write_text("".join(f"{best[heading]}\n" for heading in sorted(best)), encoding="utf-8")


@cache
def _known() -> dict[tuple[str, str], list[tuple[str, float, list[str]]]]:
    """By code and case: the thresholds, the value, and what is found below, at and above it."""
    found: dict[tuple[str, str], list[tuple[str, float, list[str]]]] = {}
    with suppress(FileNotFoundError):
        for line in FILE.read_text(encoding="utf-8").splitlines():
            heading, sides, case = line.split(" | ")
            code, name, _ = heading.split(" ")
            value, _, outcomes = sides.partition(": ")
            if case:
                found.setdefault((code, case), []).append((name, float(value), outcomes.split(", ")))
    return found
