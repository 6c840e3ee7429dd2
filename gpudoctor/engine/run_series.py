"""Series of a run for drawings: a few hundred points each, whatever its length."""

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

from gpudoctor.analysis.run.run_numbers import started
from gpudoctor.analysis.run.steady_state import OTHER, counts
from gpudoctor.model.run import Series
from gpudoctor.model.signs.recording import PHASES, Process, Recording

POINTS = 240
"""Points of a series: one for every few pixels of a page."""
_RANKS = 16
"""Ranks whose step times are drawn."""

_MACHINE = (
    ("cpu", "{core}"), ("tree_cpu", "{core}"), ("memory", "B"), ("tree_rss", "B"), ("disk_read", "B/s"),
    ("disk_write", "B/s"), ("net_rx", "B/s"), ("net_tx", "B/s"),
)  # fmt: skip
_GPU = (("util", "1"), ("sm", "1"), ("memory", "B"), ("power", "W"), ("temperature", "Cel"))


def run_series(recording: Recording) -> tuple[Series, ...]:
    """Everything worth drawing that was recorded."""
    begun = started(recording)
    return (*_of_ranks(recording, begun), *_of_machine(recording))


def _of_ranks(recording: Recording, begun: float | None) -> Iterator[Series]:
    trained = [process for process in recording.ranks if len(process.steps)]
    for place, process in enumerate(trained[:_RANKS]):
        offset = process.wall - begun if begun is not None and process.wall else 0.0
        bins = _bins(len(process.steps))
        t = tuple(process.steps.column("t")[end - 1] + offset for _, end in bins)
        name = "step_seconds" if place == 0 else f"step_seconds.rank{process.rank}"
        yield Series(name=name, unit="s", t=t, values=_each(bins, _per_step(process)))
        if place == 0:
            yield from _of_lead(process, bins, t)


def _of_lead(process: Process, bins: Sequence[tuple[int, int]], t: tuple[float, ...]) -> Iterator[Series]:
    table = process.steps
    durations = table.column("duration")
    parts = {name: table.column(name) for name in PHASES if len(table.column(name))}
    shares: dict[str, tuple[float, ...]] = {}
    for name, values in parts.items():
        shares[name] = tuple(sum(values[a:b]) / max(sum(durations[a:b]), 1e-12) for a, b in bins)
    shares[OTHER] = tuple(max(0.0, 1.0 - sum(values)) for values in zip(*shares.values(), strict=True))
    for name, values in shares.items():
        yield Series(name=f"phase.{name}", unit="1", t=t, values=values)
    for column, name, unit, pick in (
        ("loss", "loss", "", _mean), ("grad_norm", "grad_norm", "", _mean), ("lr", "lr", "", _mean),
        ("peak", "device_peak", "B", max), ("allocated", "device_allocated", "B", max),
        ("reserved", "device_reserved", "B", max), ("rss", "rss", "B", max),
    ):  # fmt: skip
        found = _known(bins, table.column(column), pick)
        if found:
            yield Series(name=name, unit=unit, t=t, values=found)


def _of_machine(recording: Recording) -> Iterator[Series]:
    table = recording.machine
    bins = _bins(len(table))
    t = tuple(table.column("t")[end - 1] for _, end in bins)
    gpus = len({name.partition("_")[0] for name in table.columns if name.startswith("gpu")})
    wanted = [*_MACHINE, *((f"gpu{i}_{name}", unit) for i in range(gpus) for name, unit in _GPU)]
    for name, unit in wanted:
        found = _known(bins, table.column(name), max if unit == "B" else _mean)
        if found:
            yield Series(name=name, unit=unit, t=t, values=found)


def _bins(rows: int) -> list[tuple[int, int]]:
    """Ranges of rows, equally many in each."""
    count = min(POINTS, rows)
    edges = [i * rows // count for i in range(count + 1)] if count else []
    return list(pairwise(edges))


def _per_step(process: Process) -> Callable[[int, int], float]:
    durations, every = process.steps.column("duration"), counts(process)
    return lambda a, b: sum(durations[a:b]) / sum(every[a:b])


def _each(bins: Sequence[tuple[int, int]], value: Callable[[int, int], float]) -> tuple[float, ...]:
    return tuple(value(a, b) for a, b in bins)


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
