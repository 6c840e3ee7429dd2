"""Memory that grows with the steps: how fast, how surely, and when it runs out."""

import math
from collections.abc import Sequence
from itertools import pairwise

from gpudoctor.analysis.run.data_waits import training_loader, waiting
from gpudoctor.analysis.run.line_costs import LinePlace
from gpudoctor.analysis.run.run_numbers import started
from gpudoctor.analysis.run.steady_state import steady
from gpudoctor.analysis.run.trends import Trend, kept_level, trend
from gpudoctor.lang import say
from gpudoctor.model.records import frozen, replace
from gpudoctor.model.signs.recording import Process, Recording
from gpudoctor.text import forecast, size

_LEAST_STEPS = 50
"""Steps before growth is judged: allocators, caches and lazily loaded libraries fill up in the first ones."""
_SAMPLES = 20
"""Samples of the machine, one a second, that a trend of the tree needs."""
_SETTLING = 0.15
"""Share of the steady steps that is left out for the same reason."""
_SURE = 1e-3
"""Mann-Kendall p-value above which an order may be chance."""
_RISING = 0.6
"""Kendall's tau below which a series goes up and down."""
_SMALL = 64 * 2.0**20
"""Bytes of growth below which it must be even: an allocator whose free blocks do not fit grows in jumps."""
_EVEN = 0.7
"""Share of the readings that must each have grown by a third of the mean growth."""
_PLAIN = say("without graphs")
"""The recorder's words for tensors that were detached."""
_YEARS = 1e8
"""Seconds to a limit that nobody waits for."""
_STILL_GROWING = 0.35
"""Slope of the second half against that of the whole: less is a quantity that comes to rest."""


@frozen
class MemoryGrowth:
    """A quantity of bytes that grows steadily with the steps."""

    bytes: float
    """Grown over the steps looked at."""
    per_step: float
    """Bytes a step."""
    per_second: float
    first: float
    """Bytes at the beginning of these steps."""
    last: float
    """Bytes at their end."""
    steps: int
    """Steps looked at."""
    trend: Trend
    ends: bool = True
    """Whether the run has seen an epoch end, where it has epochs: what grows may fall back there."""

    def sentence(self, whose: str, rank: str, projection: str, what: str) -> str:
        """Whose memory grew, by how much; then when it is full, and what grew."""
        return say(
            "{whose}{rank} grew by {grown} in {steps} steps, {per_step} a step{projection}{what}.",
            whose=whose,
            rank=rank,
            grown=size(self.bytes),
            steps=self.steps,
            per_step=size(self.per_step),
            projection=projection,
            what=what,
        )

    def seconds_to(self, limit: float) -> float:
        """Seconds until it reaches a limit in bytes; 0 where it has, infinite where nobody knows."""
        return max(0.0, (limit - self.last) / self.per_second) if self.per_second > 0 and self.ends else math.inf

    def projection(self, limit: float) -> str:
        """When it reaches a limit in bytes, as a clause; empty where that is years away."""
        seconds = self.seconds_to(limit)
        if seconds >= _YEARS:
            return ""
        return say(", and is full in {forecast}", forecast=forecast(seconds)) if seconds else ""


def _even(values: Sequence[float]) -> bool:
    """Whether a quantity grows by about the same amount from reading to reading."""
    known = [value for value in values if math.isfinite(value)]
    risen = [later - earlier for earlier, later in pairwise(known)]
    mean = (known[-1] - known[0]) / len(risen)
    return sum(rise >= 0.3 * mean for rise in risen) >= _EVEN * len(risen)


def memory_readings(process: Process, column: str) -> int:
    """Rows of the steady state in which a column was read."""
    return sum(math.isfinite(value) for value in steady(process).values(column))


def growth(process: Process, column: str) -> MemoryGrowth | None:
    """Steady growth of a column of bytes (`allocated`, `rss`) in steady state.

    None where there are fewer than 50 steps, too few readings, or no growth that is sure, keeps on to the end
    and is not a plateau reached: warm-up, caches and lazily loaded data come to rest.
    """
    state = steady(process)
    if state.steps < _LEAST_STEPS:
        return None
    indices, times = state.values("index"), state.values("t")
    values = state.values(column)
    if not values:
        return None
    skip = int(len(values) * _SETTLING)
    found = grown(indices[skip:], values[skip:], times[skip:])
    return replace(found, ends=_ends(process)) if found is not None else None


def _ends(process: Process) -> bool:
    return training_loader(process) is None or waiting(process).epochs > 1


def may_grow(process: Process, column: str) -> bool:
    """Whether a column rises so clearly that a longer look is worth it, be it too little or uneven so far."""
    found = rise(process, column)
    return found is not None and found.per_step > 0 and _goes_on(found.trend)


def rise(process: Process, column: str) -> MemoryGrowth | None:
    """How a column of bytes goes, sure or not, growing or not: for a suspicion that has its own reasons.

    None where there are too few steps or readings to tell.
    """
    state = steady(process)
    indices, times, values = state.values("index"), state.values("t"), state.values(column)
    found = trend(indices, values) if values and state.steps >= _LEAST_STEPS else None
    return _as_growth(found, indices, times) if found is not None else None


def grown(xs: Sequence[float], values: Sequence[float], times: Sequence[float]) -> MemoryGrowth | None:
    """Steady growth of values along steps xs at seconds `times`; None as for `growth`."""
    values = kept_level(values)
    found = steady_rise(xs, values)
    if found is None or (found.growth < _SMALL and not _even(values)):
        return None
    return _as_growth(found, xs, times)


def steady_rise(xs: Sequence[float], values: Sequence[float]) -> Trend | None:
    """The trend of values that rise for sure, and have not come to rest."""
    found = trend(xs, values)
    return found if found is not None and found.slope > 0 and _goes_on(found) else None


def _goes_on(found: Trend) -> bool:
    """Whether a rise is no chance and has not come to rest."""
    sure = found.p <= _SURE and found.rising >= _RISING
    return sure and found.late_slope >= _STILL_GROWING * found.slope


def _as_growth(found: Trend, xs: Sequence[float], times: Sequence[float]) -> MemoryGrowth | None:
    steps, seconds = xs[-1] - xs[0], times[-1] - times[0]
    if steps <= 0 or seconds <= 0:
        return None
    return MemoryGrowth(
        bytes=found.growth,
        per_step=found.slope,
        per_second=found.growth / seconds,
        first=found.first,
        last=found.last,
        steps=int(steps) + 1,
        trend=found,
    )


@frozen
class GrowingObject:
    """A kind of object, or the tensors of one line, that grew between two readings."""

    what: str
    count: int
    bytes: float
    place: LinePlace | None
    steps: int = 0
    """Between the two readings."""

    @property
    def words(self) -> str:
        """In words: `480 Tensor, 120 MiB (train.py:41)`."""
        where = f" ({self.place.path.rpartition('/')[2]}:{self.place.line})" if self.place else ""
        amount = say(", {bytes}", bytes=size(self.bytes)) if self.bytes > 0 else ""
        return say("{count} {what}{amount}{where}", count=self.count, what=self.what, amount=amount, where=where)

    @property
    def name(self) -> str:
        """The program's own name of it; "" of objects that only a count of all has shown."""
        before, _, after = self.what.partition("`")
        return "" if before else after.partition("`")[0]

    @property
    def has_graph(self) -> bool:
        """Whether it is part of an autograd graph."""
        if self.is_plain:
            return False
        return "Backward" in self.what or "grad_fn" in self.what or "graph" in self.what.lower()

    @property
    def is_plain(self) -> bool:
        """Whether it is tensors without graphs, by the recorder's own words."""
        return _PLAIN in self.what


def growing_things(process: Process, device: str) -> tuple[GrowingObject, ...]:
    """What grew by the last census or snapshot of a device (`cuda`, `cpu`), most first."""
    found = [
        item
        for item in process.of("memory")
        if item.get("kind") in ("census", "snapshot") and (item.get("device") or "cpu") == device
    ]
    if not found:
        return ()
    things: list[GrowingObject] = []
    steps = int(found[-1].get("step") or 0) - int(found[-1].get("since") or 0)
    for entry in found[-1].get("growth") or ():
        what, count, amount, *rest = entry
        place = LinePlace(path=str(rest[0]), line=int(rest[1])) if len(rest) > 1 and rest[0] and rest[1] else None
        total = float(amount or 0)
        things.append(GrowingObject(what=str(what), count=int(count or 0), bytes=total, place=place, steps=steps))
    return tuple(things)


def tree_growth(recording: Recording) -> MemoryGrowth | None:
    """Steady growth of the resident memory of the command's whole tree, by seconds turned into steps.

    None where the machine was sampled too seldom, or nothing grows.
    """
    times, values = recording.machine.column("t"), recording.machine.column("tree_rss")
    begun, states = started(recording), [state for state in map(steady, recording.ranks) if state.steps]
    if not len(values) or begun is None or not states:
        return None
    state = states[0]
    offset = state.process.wall - begun
    inside = [
        (t, value)
        for t, value in zip(times, values, strict=True)
        if state.begin + offset <= t <= state.end + offset and math.isfinite(value)
    ]
    inside = inside[int(len(inside) * _SETTLING) :]
    if len(inside) < _SAMPLES or state.step_seconds <= 0:
        return None
    xs = [t / state.step_seconds for t, _ in inside]
    found = grown(xs, [value for _, value in inside], [t for t, _ in inside])
    return replace(found, ends=_ends(state.process)) if found is not None else None


def memory_limit(recording: Recording) -> float | None:
    """Bytes that the job may use on the first node: its control group's limit, else the machine's memory."""
    facts = recording.machine_facts
    limit = facts.get("cgroup_memory") or facts.get("memory")
    return float(limit) if isinstance(limit, int | float) and limit > 0 else None
