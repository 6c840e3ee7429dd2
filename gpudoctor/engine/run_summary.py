"""From a recording to the `run` of a report: numbers for people and scripts, series for drawings."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from gpudoctor.analysis.known_gain import unknown_in
from gpudoctor.analysis.run.line_ownership import THE_JOB, share_of
from gpudoctor.analysis.run.recorded_gpus import peak_of_ranks
from gpudoctor.analysis.run.rollouts import experience
from gpudoctor.analysis.run.run_numbers import (
    RankMemory,
    RunNumbers,
    run_numbers,
    started,
)
from gpudoctor.analysis.run.steady_run import run_of
from gpudoctor.analysis.run.steady_state import OTHER, Steady, counts, steady
from gpudoctor.model.patient import Patient
from gpudoctor.model.run import LineShare, RunGpu, RunMemory, RunSeries, RunSummary, RunThroughput, Spread
from gpudoctor.model.signs.recording import PHASES, Process, Recording

# RunSeries of a run for drawings: a few hundred points each, whatever its length.

POINTS = 240
"""Points of a series: one for every few pixels of a page."""
_RANKS = 16
"""Ranks whose step times are drawn."""

_MACHINE = (
    ("cpu", "{core}"), ("tree_cpu", "{core}"), ("memory", "B"), ("tree_rss", "B"), ("disk_read", "B/s"),
    ("disk_write", "B/s"), ("net_rx", "B/s"), ("net_tx", "B/s"),
)  # fmt: skip
_GPU = (("util", "1"), ("sm", "1"), ("memory", "B"), ("power", "W"), ("temperature", "Cel"))


def run_series(recording: Recording) -> tuple[RunSeries, ...]:
    """Everything worth drawing that was recorded."""
    begun = started(recording)
    return (*_of_ranks(recording, begun), *_of_machine(recording))


def _of_ranks(recording: Recording, begun: float | None) -> Iterator[RunSeries]:
    trained = [process for process in recording.ranks if len(process.steps)]
    for place, process in enumerate(trained[:_RANKS]):
        offset = process.wall - begun if begun is not None and process.wall else 0.0
        bins = _bins(len(process.steps))
        t = tuple(process.steps.column("t")[end - 1] + offset for _, end in bins)
        name = "step_seconds" if place == 0 else f"step_seconds.rank{process.rank}"
        yield RunSeries(name=name, unit="s", t=t, values=_each(bins, _per_step(process)))
        if place == 0:
            yield from _of_lead(process, bins, t)


def _of_lead(process: Process, bins: Sequence[tuple[int, int]], t: tuple[float, ...]) -> Iterator[RunSeries]:
    table = process.steps
    durations = table.column("duration")
    parts = {name: table.column(name) for name in PHASES if len(table.column(name))}
    shares: dict[str, tuple[float, ...]] = {}
    for name, values in parts.items():
        shares[name] = tuple(sum(values[a:b]) / max(sum(durations[a:b]), 1e-12) for a, b in bins)
    shares[OTHER] = tuple(max(0.0, 1.0 - sum(values)) for values in zip(*shares.values(), strict=True))
    for name, values in shares.items():
        yield RunSeries(name=f"phase.{name}", unit="1", t=t, values=values)
    for column, name, unit, pick in (
        ("loss", "loss", "", _mean), ("grad_norm", "grad_norm", "", _mean), ("lr", "lr", "", _mean),
        ("peak", "device_peak", "B", max), ("allocated", "device_allocated", "B", max),
        ("reserved", "device_reserved", "B", max), ("rss", "rss", "B", max),
    ):  # fmt: skip
        found = _known(bins, table.column(column), pick)
        if found:
            yield RunSeries(name=name, unit=unit, t=t, values=found)


def _of_machine(recording: Recording) -> Iterator[RunSeries]:
    table = recording.machine
    bins = _bins(len(table))
    t = tuple(table.column("t")[end - 1] for _, end in bins)
    gpus = len({name.partition("_")[0] for name in table.columns if name.startswith("gpu")})
    wanted = [*_MACHINE, *((f"gpu{i}_{name}", unit) for i in range(gpus) for name, unit in _GPU)]
    for name, unit in wanted:
        found = _known(bins, table.column(name), max if unit == "B" else _mean)
        if found:
            yield RunSeries(name=name, unit=unit, t=t, values=found)


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


_WINDOWS = 20
"""Windows of the steady time that throughput is spread over."""
EVALUATION = "evaluation"
_FEWEST = 4
"""Windows below which a spread says nothing."""


def summarise(recording: Recording) -> RunSummary:
    """The run in numbers; what was not recorded is None or empty."""
    numbers = run_numbers(recording)
    end = recording.end
    return RunSummary(
        recording=recording.path,
        origin=recording.origin,
        command=recording.command,
        seconds=end.seconds if end else None,
        exit_code=end.exit_code if end else None,
        signal=end.signal if end else None,
        stopped_by=end.stopped_by if end else None,
        steps=numbers.steps,
        steady_steps=numbers.steady_steps,
        ranks=numbers.ranks,
        marker=_marker(recording),
        warm_up_seconds=numbers.warm_up_seconds,
        start_seconds=numbers.start_seconds,
        step_seconds=numbers.step,
        throughput=_throughput(recording, numbers),
        phases=numbers.phases,
        device_idle=judged.idle if (judged := run_of(recording)) is not None else None,
        room=judged.room if judged is not None else None,
        gain_unknown=unknown_in(recording),
        memory=_memory(recording, numbers.memory),
        gpus=tuple(
            RunGpu(
                name=gpu.name,
                utilization=gpu.utilization,
                sm_active=gpu.busy,
                memory=gpu.memory,
                power=gpu.power,
                temperature=gpu.temperature,
            )
            for gpu in numbers.gpus
        ),
        lines=tuple(
            LineShare(path=item.path, line=item.line, function=item.function, share=item.share)
            for item in numbers.lines
        ),
        series=run_series(recording),
    )


def with_work(run: RunSummary, patient: Patient) -> RunSummary:
    """The summary once the user's lines are known: what is the job's own work, and in which phase it is.

    A policy that acts in eval mode to gather experience is no evaluation.
    """
    judged = run_of(patient.recording)
    if judged is None:
        return run
    gathered = experience(patient, judged)
    moved = min(gathered.evaluation, run.phases.get(EVALUATION, 0.0)) if gathered is not None else 0.0
    phases = dict(run.phases)
    if moved:
        phases[EVALUATION] -= moved
        phases[OTHER] = phases.get(OTHER, 0.0) + moved
    work = share_of(patient, judged, *THE_JOB) + moved
    return replace(run, phases=phases, work=min(work, phases.get(OTHER, 0.0)))


def _marker(recording: Recording) -> str | None:
    for process in recording.ranks:
        loop = process.last("loop")
        if loop is not None and isinstance(loop.get("marker"), str):
            return str(loop.get("marker"))
    return None


def _throughput(recording: Recording, numbers: RunNumbers) -> RunThroughput:
    found = numbers.throughput
    if found is None:
        return RunThroughput()
    states = [state for state in map(steady, recording.ranks) if state.steps]
    columns = {"steps_per_second": None, "samples_per_second": "samples", "tokens_per_second": "tokens"}
    spreads = {
        name: spread
        for name, column in columns.items()
        if getattr(found, name) is not None and (spread := _windows(states, column)) is not None
    }
    return RunThroughput(
        steps_per_second=found.steps_per_second,
        samples_per_second=found.samples_per_second,
        tokens_per_second=found.tokens_per_second,
        mfu=_mfu(recording, found.flops_per_second),
        spreads=spreads,
    )


def _mfu(recording: Recording, flops: float | None) -> float | None:
    """Model FLOPs a second over the peak of all ranks' devices together."""
    peak = peak_of_ranks(recording)
    return flops / peak if flops and peak else None


def _windows(states: Sequence[Steady], column: str | None) -> Spread | None:
    """The rate of a column (of steps without one) over windows of equally many rows, summed over ranks.

    Steps are made by all ranks together, so theirs is the first rank's rate.
    """
    wanted = states[:1] if column is None else states
    windows = min(_WINDOWS, *(len(state.rows) for state in wanted))
    if windows < _FEWEST:
        return None
    rates = [sum(each) for each in zip(*(_rates(state, column, windows) for state in wanted), strict=True)]
    mean = sum(rates) / len(rates)
    ordered = sorted(rates)
    return Spread(
        median=_at(ordered, 0.5),
        mean=mean,
        min=ordered[0],
        max=ordered[-1],
        std=(sum((rate - mean) ** 2 for rate in rates) / len(rates)) ** 0.5,
        p10=_at(ordered, 0.1),
        p90=_at(ordered, 0.9),
    )


def _rates(state: Steady, column: str | None, windows: int) -> Iterator[float]:
    seconds = state.values("duration")
    every = counts(state.process)
    values = [every[row] for row in state.rows] if column is None else state.values(column)
    for number in range(windows):
        part = slice(number * len(seconds) // windows, (number + 1) * len(seconds) // windows)
        amount = sum(value for value in values[part] if value == value)  # NaN is not itself
        yield amount / max(sum(seconds[part]), 1e-12)


def _at(ordered: Sequence[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def _memory(recording: Recording, ranks: Iterable[RankMemory]) -> RunMemory:
    every = list(ranks)
    fullest = max(every, key=lambda rank: rank.peak or rank.allocated or 0.0, default=None)
    facts = recording.machine_facts
    return RunMemory(
        allocated=_whole((fullest.peak or fullest.allocated) if fullest else None),
        reserved=_whole(fullest.reserved if fullest else None),
        device=_whole(fullest.device if fullest else None),
        rss=_whole(max((rank.rss for rank in every if rank.rss is not None), default=None)),
        tree_rss=_whole(_highest(recording, "tree_rss")),
        machine=_whole(_highest(recording, "memory")),
        machine_limit=_whole(facts.get("cgroup_memory") or facts.get("memory")),
    )


def _whole(value: float | None) -> int | None:
    return None if value is None else int(value)


def _highest(recording: Recording, column: str) -> float | None:
    values = recording.machine.column(column)
    return max((value for value in values if value == value), default=None)
