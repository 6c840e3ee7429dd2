"""The steady state of a process: its steps after warm-up, compile and a cold first epoch.

Shares are sums over sums, so that what happens once in a hundred steps counts with its full price. A row may
stand for several steps (docs/recording.md, Size); all means are by step.
"""

import math
from collections.abc import Iterable, Sequence
from statistics import median

from gpudoctor.analysis.memo import once
from gpudoctor.model.memo import remembered
from gpudoctor.model.records import frozen
from gpudoctor.model.signs.recording import DEVICE, PHASES, Process

OTHER = "other"
"""What is left of a step when all phases are taken away."""
PARTS = (*PHASES, OTHER)
_PROBE = "probe"
"""Our own readings: no time of the program's."""
_SLOW = 1.5
"""A step this much longer than those of the second half is not warm yet."""
_NEAR = 5
"""Steps whose median is looked at: more than half of them must be slow to count as warm-up."""
_LONGEST_WARM_UP = 0.5
"""Share of the rows that warm-up may take; where it takes more, there is no steady state to be had."""
_COMPILING = 0.25
"""Share of the steps in which compiling belongs to the start; later it is an ailment of its own."""
_PAUSE = 10.0
"""A step this many times the median is a pause: a suspended machine, a debugger, a full disk for a moment."""
_PAUSES = 2
"""So many pauses are accidents; more are part of how the job runs."""
_OWNED = ("evaluation", "checkpoint", "profiler")
"""Phases that make a step long on purpose."""


@frozen
class Steady:
    """Rows of a process in which it does what it does all the time."""

    process: Process
    rows: tuple[int, ...]
    """Indices of its rows, rising; empty where it made no steps."""
    steps: int
    seconds: float
    """Duration of these steps together."""
    warm_up_steps: int
    """Steps before."""
    warm_up_seconds: float

    def values(self, column: str) -> list[float]:
        """The column's values in these rows; empty where it was not recorded."""
        values = self.process.steps.column(column)
        return [values[row] for row in self.rows] if len(values) else []

    def total(self, column: str) -> float:
        """Sum of the known values; `other` is what no phase holds, and no reading of ours."""
        return remembered(self.process, ("steady total", column), lambda: self._total(column))

    def _total(self, column: str) -> float:
        if column == OTHER:
            return max(0.0, self.seconds - sum(self.total(name) for name in (*PHASES, _PROBE)))
        return math.fsum(value for value in self.values(column) if not math.isnan(value))

    def share(self, phase: str) -> float:
        """Share of the program's own time (0..1) in a phase; 0 where there was no step.

        A phase on the device: share of the device's time in the steps that were timed there, which are not all.
        """
        own = (self._timed_on_device() if phase in DEVICE else 0.0) or self.seconds - self.total(_PROBE)
        return min(1.0, self.total(phase) / own) if own > 0 else 0.0

    def per_step(self, column: str) -> float:
        """Mean of a column a step: seconds of a phase, number of calls."""
        if not self.steps:
            return 0.0
        if column in DEVICE:
            return self.share(column) * self.step_seconds  # our readings wait for the device, too
        return self.total(column) / self.steps

    def _timed_on_device(self) -> float:
        """Seconds of the steps that were timed on the device, by its clock; 0 where it had none."""
        return self.total("device_busy") + self.total("device_idle") if self.known("device_idle") else 0.0

    def known(self, column: str) -> bool:
        """Whether at least one value of the column is known."""
        return any(not math.isnan(value) for value in self.values(column))

    @property
    def idle(self) -> float | None:
        """Share of the time (0..1) in which the device can have had nothing to do; None without its clock.

        An upper bound: while the host launches onto an empty stream, the gaps between kernels are not seen.
        """
        return remembered(self.process, "steady idle", self._idle)

    def _idle(self) -> float | None:
        busy, idle = self.values("device_busy"), self.values("device_idle")
        pairs = [(a, b) for a, b in zip(busy, idle, strict=False) if not math.isnan(a) and not math.isnan(b)]
        whole = math.fsum(a + b for a, b in pairs)
        return math.fsum(b for _, b in pairs) / whole if whole > 0 else None

    def events(self, column: str) -> int:
        """Rows in which the column is above zero: how often something happened, at least."""
        return sum(value > 0 for value in self.values(column))

    @property
    def step_seconds(self) -> float:
        """Mean duration of a step."""
        return self.seconds / self.steps if self.steps else 0.0

    @property
    def whole_seconds(self) -> float:
        """Duration of all steps, warm-up included."""
        return self.seconds + self.warm_up_seconds

    @property
    def begin(self) -> float:
        """Seconds since the process's start at which the first of these steps began; 0 without steps."""
        if not self.rows:
            return 0.0
        table = self.process.steps
        return table.column("t")[self.rows[0]] - table.column("duration")[self.rows[0]]

    @property
    def end(self) -> float:
        """Seconds since the process's start at which the last of these steps ended; 0 without steps."""
        return self.process.steps.column("t")[self.rows[-1]] if self.rows else 0.0


@once
def steady(process: Process) -> Steady:
    """The steady state of a process."""
    durations, steps = process.steps.column("duration"), counts(process)
    each = _each(process)
    # Work is launched for a device: until the queue is full, steps last as long as launching.
    runs_ahead = any(map(math.isfinite, process.steps.column("device_busy")))
    first = max(_warm(each, runs_ahead), _compiled(process, steps))
    kept = [row for row in range(first, len(each)) if math.isfinite(each[row])]
    pauses = _pauses(process, each, kept)
    rows = tuple(row for row in kept if row not in pauses)
    return Steady(
        process=process,
        rows=rows,
        steps=int(sum(steps[row] for row in rows)),
        seconds=math.fsum(durations[row] for row in rows),
        warm_up_steps=int(sum(steps[:first])),
        warm_up_seconds=math.fsum(seconds for seconds in durations[:first] if math.isfinite(seconds)),
    )


def padding(states: Iterable[Steady]) -> float | None:
    """Share of the tokens (0..1) that are padding, all ranks together; None where no mask of a batch told."""
    known = [state for state in states if state.known("padding") and state.known("tokens")]
    tokens = sum(state.total("tokens") for state in known)
    return sum(state.total("padding") for state in known) / tokens if tokens else None


def cold_steps(process: Process) -> int:
    """Steps at the start that take longer than later ones; those in which a host runs ahead are none."""
    steps = counts(process)
    return int(sum(steps[: max(_warm(_each(process), False), _compiled(process, steps))]))


def _each(process: Process) -> list[float]:
    """Seconds of a step, by row."""
    durations = process.steps.column("duration")
    return [seconds / count for seconds, count in zip(durations, counts(process), strict=True)]


def counts(process: Process) -> list[float]:
    """Steps in each row."""
    given = process.steps.column("count")
    return [max(1.0, count) for count in given] if len(given) else [1.0] * len(process.steps)


def _warm(each: Sequence[float], runs_ahead: bool) -> int:
    """The first row that is warm; the first row of a run never is."""
    rows = len(each)
    if rows < 2:
        return 0
    usual = median(each[rows // 2 :])
    limit = max(1, int(rows * _LONGEST_WARM_UP))
    least, most = usual / _SLOW if runs_ahead else 0.0, _SLOW * usual
    for row in range(1, limit + 1):
        near = median(each[row : row + _NEAR])
        if least <= each[row] <= most and least <= near <= most:
            return row
    return limit if rows > _NEAR else 1


def _compiled(process: Process, steps: Sequence[float]) -> int:
    """The first row after the compiling that belongs to the start; `steps` are those of each row."""
    total = sum(steps)
    last = max(
        (
            int(item.get("step") or 0)
            for item in process.of("compile")
            if item.get("kind") in {"compile", "recompile"} and (item.get("step") or 0) < total * _COMPILING
        ),
        default=-1,
    )
    if last < 0:
        return 0
    indices = process.steps.column("index")
    return next((row for row, index in enumerate(indices) if index > last), 0)


def _pauses(process: Process, each: Sequence[float], rows: Sequence[int]) -> frozenset[int]:
    """Rows with a single long stop that no phase asked for; empty where there are many of them."""
    if len(rows) < 3 * _NEAR:
        return frozenset()
    limit = _PAUSE * median(each[row] for row in rows)
    owned = [process.steps.column(name) for name in _OWNED]
    found = [
        row
        for row in rows
        if each[row] > limit and each[row] - sum(values[row] for values in owned if len(values)) > limit
    ]
    return frozenset(found) if len(found) <= _PAUSES else frozenset()
