"""Steps that take longer and longer: how much, which part, and whose lines."""

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from operator import sub

from gpudoctor.analysis.run.cpu_contention import crowd, fairness
from gpudoctor.analysis.run.line_costs import LinePlace
from gpudoctor.analysis.run.steady_state import PARTS, Steady, counts
from gpudoctor.analysis.run.trends import Trend, trend
from gpudoctor.model.signs.recording import PHASES, Recording

_SURE = 1e-3
_RISING = 0.5
"""Kendall's tau below which times go up and down."""
_STILL = 0.3
"""Slope of the second half against the whole: less is a rise that has come to rest."""
_LEAST_SERVED = 1e-3
"""Of its usual CPUs: a process that got none made no step."""
_LATER = 0.2
"""How much larger the share of the time with a crowd is in the second half: more is others that came late."""
_PASSES = ("forward", "backward", "optimizer")
_OWNED = ("evaluation", "checkpoint")
"""What a step holds now and then: no part of its usual time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """A step time that rises."""

    first: float
    """Fitted seconds of a step at the beginning."""
    last: float
    """And at the end."""
    p: float
    steps: int
    seconds: float
    """Of the steps looked at."""
    part: str
    """The phase that rises most, `other` included."""

    @property
    def rise(self) -> float:
        """The rise over the run as a share of a step at its beginning."""
        return self.last / self.first - 1.0

    @property
    def lost(self) -> float:
        """Share of the run's time that is above what its steps took at the beginning."""
        middle = (self.first + self.last) / 2
        return max(0.0, 1.0 - self.first / middle)


def drift(state: Steady, recording: Recording) -> Drift | None:
    """The rise of the step time, without what comes now and then; None where none is sure and goes on.

    Where others crowd the CPUs, time that the run was kept from them is set aside.
    """
    served = fairness(recording, state.process, state.values("t"))
    every = counts(state.process)
    weights = [every[row] / fair for row, fair in zip(state.rows, map(_some, served), strict=True)]
    columns = {name: _each(state, name, weights) for name in ("duration", *PHASES)}
    usual = _without(columns, _OWNED)
    indices = state.values("index")
    found = trend(indices, usual)
    if found is None or found.slope <= 0 or found.first <= 0:
        return None
    part, own = _part(indices, columns)
    last, p = found.last, found.p
    if _rises(found) and part in _PASSES and _joined_late(recording):
        return None
    if not _rises(found):
        # The passes of a step on a busy machine hide what rises beside them.
        if own is None or part in _PASSES or not _rises(own):
            return None
        last, p = found.first + own.growth, own.p
    return Drift(
        first=found.first, last=last, p=p, steps=state.steps, seconds=state.seconds, part=part
    )  # fmt: skip


def _joined_late(recording: Recording) -> bool:
    """Whether others came to crowd the CPUs during the run: a pass then takes longer than the CPUs that it lost
    can tell, for caches and the memory's bandwidth are shared as well.
    """
    found = crowd(recording)
    return found is not None and found.later > _LATER


def _some(share: float) -> float:
    return max(_LEAST_SERVED, share)


def _rises(found: Trend) -> bool:
    """Whether a rise is sure, goes nearly always up, and goes on."""
    return found.p <= _SURE and found.rising >= _RISING and found.late_slope >= _STILL * found.slope > 0


def _each(state: Steady, name: str, weights: Sequence[float]) -> "array[float]":
    """A column by step; zeros where it was not recorded or not known."""
    values = state.values(name) or [0.0] * len(weights)
    each = (value / weight if value == value else 0.0 for value, weight in zip(values, weights, strict=True))
    return array("d", each)


def _without(columns: Mapping[str, "array[float]"], names: Sequence[str]) -> "array[float]":
    """The durations without what some phases took."""
    parts = [columns[name] for name in names if any(columns[name])]
    taken = map(sum, zip(*parts, strict=True)) if parts else repeat(0.0)
    return array("d", map(sub, columns["duration"], taken))


def _part(indices: list[float], columns: Mapping[str, "array[float]"]) -> tuple[str, Trend | None]:
    """The part of the step whose own trend rises most, and that trend."""
    rest = _without(columns, PHASES)
    parts = {name: rest if name == "other" else columns[name] for name in PARTS}
    found = {name: trend(indices, values) if any(values) else None for name, values in parts.items()}
    most = max(found, key=lambda name: one.growth if (one := found[name]) is not None else 0.0)
    return most, found[most]


def growing_lines(state: Steady, most: int = 3) -> list[LinePlace]:
    """The user's lines that take more of the samples in the second half of the steps than in the first.

    The sampler looks at a constant pace, so more samples are more time.
    """
    middle = (state.begin + state.end) / 2
    early: dict[tuple[str, int], float] = {}
    late: dict[tuple[str, int], float] = {}
    functions: dict[tuple[str, int], str] = {}
    for record in state.process.of("lines"):
        if not state.begin <= record.t:
            continue
        half = early if record.t <= middle else late
        for _, path, line, function, count in record.get("counts") or ():
            if path is not None:
                key = (str(path), int(line or 0))
                half[key] = half.get(key, 0.0) + count
                functions[key] = str(function or "")
    total = {key: late.get(key, 0.0) - early.get(key, 0.0) for key in late}
    sums = sum(late.values())
    found = [key for key in sorted(total, key=lambda key: -total[key]) if total[key] > 0.05 * sums]
    return [LinePlace(path=path, line=line, function=functions[path, line]) for path, line in found[:most]]
