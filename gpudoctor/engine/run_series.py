"""What reports draw of a run: series of a few hundred points whatever its length, and its step times."""

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

from gpudoctor.analysis.run.curves import first_bad, step_of
from gpudoctor.analysis.run.run_numbers import started
from gpudoctor.analysis.run.steady_state import OTHER, counts, steady
from gpudoctor.model.run import RunSeries, StepTimes
from gpudoctor.model.signs.recording import PHASES, Process, Recording

POINTS = 240
"""Points of a series: one for every few pixels of a page."""
_RANKS = 8
"""Ranks whose step times are drawn."""
_MACHINE = (
    ("cpu", "{core}"),
    ("tree_cpu", "{core}"),
    ("memory", "B"),
    ("tree_rss", "B"),
    ("disk_read", "B/s"),
    ("disk_write", "B/s"),
)
_GPU = (("util", "1"), ("sm", "1"), ("memory", "B"), ("power", "W"))
_BARS = 40
"""Bars of the histogram."""
_FEWEST = 8
"""Steps below which a histogram says nothing."""
_TAIL = 0.99
"""Share of the steps that the histogram's axis covers, at least; one stall must not squeeze all others."""


def run_series(recording: Recording) -> tuple[RunSeries, ...]:
    """Everything worth drawing that was recorded."""
    begun = started(recording)
    return (*_of_ranks(recording, begun), *_of_machine(recording))


def _of_ranks(recording: Recording, begun: float | None) -> Iterator[RunSeries]:
    trained = [process for process in recording.ranks if len(process.steps)]
    for place, process in enumerate(trained[:_RANKS]):
        offset = _offset(recording, process, begun)
        bins = _bins(len(process.steps), POINTS)
        name = "step_seconds" if place == 0 else f"step_seconds.rank{process.rank}"
        axes = _axes(process, bins, offset)
        durations, every = process.steps.column("duration"), counts(process)
        values = tuple(sum(durations[a:b]) / sum(every[a:b]) for a, b in bins)
        yield RunSeries(name=name, unit="s", **axes, values=values)
        if place == 0:
            yield from _of_lead(process, bins, axes)


def _offset(recording: Recording, process: Process, begun: float | None) -> float:
    """Seconds from the start of the command to that of a rank; 0 where their clocks cannot be of one run."""
    if begun is None or not process.wall:
        return 0.0
    most = recording.end.seconds if recording.end is not None and recording.end.seconds else math.inf
    return found if 0 <= (found := process.wall - begun) <= most else 0.0


def _axes(
    process: Process, bins: Sequence[tuple[int, int]], offset: float
) -> dict[str, tuple[float, ...]]:  # seconds since the command began, and the number of the step
    ends, every = process.steps.column("t"), counts(process)
    numbers = process.steps.column("index")
    return {
        "t": tuple(ends[end - 1] + offset for _, end in bins),
        "steps": tuple(float(numbers[end - 1] + every[end - 1]) for _, end in bins),
    }


def _of_lead(
    process: Process, bins: Sequence[tuple[int, int]], axes: dict[str, tuple[float, ...]]
) -> Iterator[RunSeries]:
    table = process.steps
    yield from _phases(process, bins, axes)
    for column, name, unit, pick in (
        ("loss", "loss", "", _mean),
        ("grad_norm", "grad_norm", "", _mean),
        ("lr", "lr", "", _mean),
        ("peak", "device_peak", "B", max),
        ("allocated", "device_allocated", "B", max),
        ("reserved", "device_reserved", "B", max),
        ("rss", "rss", "B", max),
    ):
        found = _known(bins, table.column(column), pick)
        if found:
            yield RunSeries(name=name, unit=unit, **axes, values=found)


def _phases(
    process: Process, bins: Sequence[tuple[int, int]], axes: dict[str, tuple[float, ...]]
) -> Iterator[RunSeries]:
    """Shares of a step by phase."""
    durations = process.steps.column("duration")
    shares: dict[str, tuple[float, ...]] = {}
    for name in PHASES:
        values = process.steps.column(name)
        if len(values):
            shares[name] = tuple(sum(values[a:b]) / max(sum(durations[a:b]), 1e-12) for a, b in bins)
    shares[OTHER] = tuple(max(0.0, 1.0 - sum(values)) for values in zip(*shares.values(), strict=True))
    for name, known in shares.items():
        yield RunSeries(name=f"phase.{name}", unit="1", **axes, values=known)


def _of_machine(recording: Recording) -> Iterator[RunSeries]:
    table = recording.machine
    bins = _bins(len(table), POINTS)
    t = tuple(table.column("t")[end - 1] for _, end in bins)
    gpus = len({name.partition("_")[0] for name in table.columns if name.startswith("gpu")})
    wanted = [*_MACHINE, *((f"gpu{i}_{name}", unit) for i in range(gpus) for name, unit in _GPU)]
    for name, unit in wanted:
        found = _known(bins, table.column(name), max if unit == "B" else _mean)
        if found:
            yield RunSeries(name=name, unit=unit, t=t, values=found)


def _bins(rows: int, most: int) -> list[tuple[int, int]]:
    """Ranges of rows, equally many in each."""
    count = min(most, rows)
    edges = [i * rows // count for i in range(count + 1)] if count else []
    return list(pairwise(edges))


def _known(
    bins: Sequence[tuple[int, int]], values: Sequence[float], pick: Callable[[Sequence[float]], float]
) -> tuple[float, ...]:
    """A value for each bin; empty where no value of the column is known."""
    if not len(values):
        return ()
    found = []
    for a, b in bins:
        known = [value for value in values[a:b] if math.isfinite(value)]
        found.append(pick(known) if known else math.nan)
    return tuple(found) if any(math.isfinite(value) for value in found) else ()


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def step_times(recording: Recording) -> StepTimes | None:
    """A histogram of the first rank's steady steps; None without several."""
    state = next((found for found in map(steady, recording.ranks) if found.steps), None)
    if state is None:
        return None
    every = counts(state.process)
    each = [
        (seconds / every[row], round(every[row]))
        for row, seconds in zip(state.rows, state.values("duration"), strict=True)
    ]
    total = sum(weight for _, weight in each)
    each.sort()
    low, high = each[0][0], each[-1][0]
    if total < _FEWEST or not 0 < low < high:
        return None
    high = min(high, _covering(each, total) * 1.1)
    width = (high - low) / min(_BARS, max(8, 2 * round(math.sqrt(total))))
    bars = round((high - low) / width)
    found, beyond = [0] * bars, 0
    for seconds, weight in each:
        place = int((seconds - low) / width)
        if seconds > high * (1 + 1e-9):
            beyond += weight
        else:
            found[min(place, bars - 1)] += weight
    return StepTimes(edges=tuple(low + i * width for i in range(bars + 1)), counts=tuple(found), beyond=beyond)


def _covering(each: Sequence[tuple[float, int]], total: int) -> float:
    """The time that all but the slowest of the sorted steps stay within."""
    reached = 0
    for seconds, weight in each:
        reached += weight
        if reached >= _TAIL * total:
            return seconds
    return each[-1][0]


def bad_step(recording: Recording) -> int | None:
    """The first step whose loss or gradients were not finite and reached the weights; None without one."""
    found = [
        step_of(item)
        for process in recording.ranks
        for kind in ("nan-loss", "nan-gradients")
        if (item := first_bad(process, kind)) is not None
    ]
    return min(found, default=None)
