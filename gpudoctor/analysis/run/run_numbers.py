"""The numbers of a run: steps, throughput, phases, lines, memory, GPUs; for reports and comparisons."""

import math
import re
from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate

from gpudoctor.analysis.memo import once
from gpudoctor.analysis.run.line_costs import by_line, lines, relative
from gpudoctor.analysis.run.steady_state import PARTS, Steady, counts, steady
from gpudoctor.model.records import frozen
from gpudoctor.model.run import Spread
from gpudoctor.model.signs.recording import Process, Recording

_LINES = 20
_GPU = re.compile(r"gpu(\d+)_\w+")


@frozen
class Throughput:
    """What the whole job does in a second of steady state; None where it was not counted."""

    steps_per_second: float
    samples_per_second: float | None
    tokens_per_second: float | None
    """Padding included."""
    flops_per_second: float | None
    """Of the model, as the probe counted them; over a device's peak it is the MFU."""


@frozen
class RankMemory:
    """Greatest memory of one rank in bytes; None where not known."""

    rank: int
    allocated: float | None
    reserved: float | None
    peak: float | None
    device: float | None
    """Bytes of the device."""
    rss: float | None


@frozen
class GpuUse:
    """What one GPU did while the run was recorded; None where it does not tell."""

    index: int
    name: str
    utilization: float | None
    """Mean share of time with a kernel on it (NVML), 0..1."""
    busy: float | None
    """Mean share of its SMs that were busy (GPM), 0..1."""
    memory: float | None
    """Greatest, bytes."""
    power: float | None
    """Mean, watts."""
    temperature: float | None
    """Greatest, degrees Celsius."""


@frozen
class RunLine:
    """A line of the user's and its share of the time."""

    path: str
    line: int
    function: str
    share: float


@frozen
class RunNumbers:
    """One run in numbers."""

    steps: int
    """Of all kinds, warm-up included; the rank that made most."""
    ranks: int
    steady_steps: int
    warm_up_seconds: float
    """From the first step to steady state."""
    start_seconds: float | None
    """From the start of the process to the end of the first step."""
    seconds: float | None
    """Of the whole command."""
    step: Spread | None
    throughput: Throughput | None
    phases: dict[str, float]
    """Shares of steady state, `other` included, mean over ranks; empty without steps."""
    lines: tuple[RunLine, ...]
    memory: tuple[RankMemory, ...]
    gpus: tuple[GpuUse, ...]


@once
def run_numbers(recording: Recording) -> RunNumbers:
    """The numbers of a recording; a run without steps has the fields that need none."""
    stable = [state for state in map(steady, recording.ranks) if state.steps]
    lead = stable[0] if stable else None
    return RunNumbers(
        steps=max((made_steps(process) for process in recording.ranks), default=0),
        ranks=len(recording.ranks),
        steady_steps=lead.steps if lead else 0,
        warm_up_seconds=lead.warm_up_seconds if lead else 0.0,
        start_seconds=first_step(lead.process) if lead else None,
        seconds=recording.end.seconds if recording.end else None,
        step=step_statistics(lead) if lead else None,
        throughput=throughput(stable) if stable else None,
        phases=phase_shares(stable),
        lines=user_lines(recording),
        memory=tuple(rank_memory(process) for process in recording.ranks),
        gpus=gpu_use(recording),
    )


def made_steps(process: Process) -> int:
    """Steps that a process made."""
    return int(sum(counts(process)))


def first_step(process: Process) -> float | None:
    """Seconds from the start of the process to the end of its first step; None where it made none."""
    ends = process.steps.column("t")
    return ends[0] if len(ends) else None


def step_statistics(state: Steady) -> Spread | None:
    """Statistics of the steady steps, a row of several counted as so many of its mean; None without steps."""
    every = counts(state.process)
    taken, weights = state.values("duration"), [every[row] for row in state.rows]
    each = [seconds / weight for seconds, weight in zip(taken, weights, strict=True)]
    if not each:
        return None
    steps = sum(weights)
    mean = sum(taken) / steps
    spread = sum(weight * (seconds - mean) ** 2 for seconds, weight in zip(each, weights, strict=True))
    longest = [value for value in state.values("longest") if math.isfinite(value)]
    ordered = sorted(zip(each, weights, strict=True))
    reached = list(accumulate(weight for _, weight in ordered))
    return Spread(
        median=_quantile(ordered, reached, 0.5),
        mean=mean,
        min=ordered[0][0],
        max=max([ordered[-1][0], *longest]),
        std=math.sqrt(spread / steps),
        p10=_quantile(ordered, reached, 0.1),
        p90=_quantile(ordered, reached, 0.9),
    )


def _quantile(ordered: Sequence[tuple[float, float]], reached: Sequence[float], share: float) -> float:
    """A weighted quantile: the middle of the two values around it where it falls between them.

    `reached` is the sum of the weights up to each value.
    """
    wanted = share * reached[-1]
    index = min(bisect_left(reached, wanted), len(ordered) - 1)
    if reached[index] == wanted and index + 1 < len(ordered):
        return (ordered[index][0] + ordered[index + 1][0]) / 2
    return ordered[index][0]


def throughput(states: Sequence[Steady]) -> Throughput:
    """The job's throughput: steps of the first rank, samples and tokens of all of them together."""
    lead = states[0]
    return Throughput(
        steps_per_second=lead.steps / lead.seconds if lead.seconds else 0.0,
        samples_per_second=_rate(states, "samples"),
        tokens_per_second=_rate(states, "tokens"),
        flops_per_second=_flops(states),
    )


def _rate(states: Sequence[Steady], column: str) -> float | None:
    if not all(state.seconds and state.known(column) for state in states):
        return None
    return sum(state.total(column) / state.seconds for state in states)


def _flops(states: Sequence[Steady]) -> float | None:
    total = 0.0
    for state in states:
        counted = [item.get("flops") for item in state.process.of("model")]
        known = [float(value) for value in counted if isinstance(value, int | float) and value > 0]
        if not known or not state.seconds:
            return None
        total += max(known) * state.steps / state.seconds
    return total


def phase_shares(states: Sequence[Steady]) -> dict[str, float]:
    """Mean share of each phase over ranks; they sum to 1. Empty without steps."""
    if not states:
        return {}
    return {part: sum(state.share(part) for state in states) / len(states) for part in PARTS}


def user_lines(recording: Recording) -> tuple[RunLine, ...]:
    """The user's lines that took most of the steady time, all ranks together."""
    sampled = [lines(process) for process in recording.ranks]
    every = by_line(item for costs in sampled for item in costs)
    total = sum(costs[0].samples / costs[0].share for costs in sampled if costs and costs[0].share)
    return tuple(
        RunLine(
            path=relative(recording, item.place.path),
            line=item.place.line,
            function=item.place.function,
            share=item.samples / total,
        )
        for item in every[:_LINES]
    )


def rank_memory(process: Process) -> RankMemory:
    """Greatest memory of a rank over the whole run."""
    torch = process.first("torch")
    device = torch.get("device_bytes") if torch else None
    return RankMemory(
        rank=process.rank,
        allocated=_greatest(process.steps.column("allocated")),
        reserved=_greatest(process.steps.column("reserved")),
        peak=_greatest(process.steps.column("peak")),
        device=float(device) if isinstance(device, int | float) and device > 0 else None,
        rss=_greatest(process.steps.column("rss")),
    )


def gpu_use(recording: Recording) -> tuple[GpuUse, ...]:
    """What each sampled GPU did from the first step on."""
    machine = recording.machine
    indices = sorted({int(match[1]) for name in machine.columns if (match := _GPU.fullmatch(name))})
    named = recording.machine_facts.get("gpus") or ()
    return tuple(
        GpuUse(
            index=index,
            name=_name(named, index),
            utilization=_mean(sampled(recording, f"gpu{index}_util")),
            busy=_mean(sampled(recording, f"gpu{index}_sm")),
            memory=_greatest(sampled(recording, f"gpu{index}_memory")),
            power=_mean(sampled(recording, f"gpu{index}_power")),
            temperature=_greatest(sampled(recording, f"gpu{index}_temperature")),
        )
        for index in indices
    )


def reasons(recording: Recording) -> dict[int, list[int]]:
    """Clocks event reasons of each sampled GPU in steady state, as bit masks; empty without samples."""
    found: dict[int, list[int]] = {}
    for gpu in gpu_use(recording):
        masks = [int(value) for value in sampled(recording, f"gpu{gpu.index}_reasons")]
        if masks:
            found[gpu.index] = masks
    return found


def sampled(recording: Recording, column: str) -> list[float]:
    """A column of the machine while the steps were steady, known values only; the whole run without steps.

    The machine's clock begins with the command, a rank's with its process: `wall` joins them where the
    manifest's start is known, and half a second of doubt does not matter to means.
    """
    values, times = recording.machine.column(column), recording.machine.column("t")
    if not len(values):
        return []
    begin, end = steady_window(recording)
    return [value for t, value in zip(times, values, strict=True) if begin <= t <= end and math.isfinite(value)]


@once
def steady_window(recording: Recording) -> tuple[float, float]:
    """Seconds on the machine's clock between which all ranks were in steady state; unbounded without steps."""
    begun = started(recording)
    states = [state for state in map(steady, recording.ranks) if state.steps]
    if begun is None or not states:
        return -math.inf, math.inf
    offsets = [state.process.wall - begun for state in states]
    return (
        max(state.begin + offset for state, offset in zip(states, offsets, strict=True)),
        min(state.end + offset for state, offset in zip(states, offsets, strict=True)),
    )


@once
def started(recording: Recording) -> float | None:
    """Epoch seconds of the manifest's start; None where it is not known."""
    from datetime import datetime

    try:
        return datetime.fromisoformat(recording.started).timestamp()
    except ValueError:
        return None


def _name(named: object, index: int) -> str:
    if isinstance(named, list | tuple) and index < len(named) and isinstance(named[index], dict):
        return str(named[index].get("name") or "")
    return ""


def _greatest(values: Sequence[float]) -> float | None:
    return max((value for value in values if math.isfinite(value)), default=None)


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None
