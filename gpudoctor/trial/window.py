"""The measured window of a run: the same steps in every run, warm-up set aside, all ranks together."""

import math
from collections.abc import Mapping
from itertools import pairwise
from statistics import median

from gpudoctor.analysis.run.steady_state import cold_steps, steady
from gpudoctor.model.records import field, frozen
from gpudoctor.model.signs.recording import Process, Recording

FENCES = "trial.fences"
"""The override that has a run wait for its device at the ends of windows."""
FEWEST_STEPS = 5
"""Steps below which a window is none."""
_EVENTFUL = 8.0
"""A phase's value so many times its median marks an event that comes once in a while."""
_SHARE = 0.01
"""Share of the time below which such events are not worth a longer window."""
_OCCASIONAL = ("evaluation", "checkpoint", "profiler", "logging", "data_wait")


@frozen
class TrialWindow:
    """One run, as a pair needs it."""

    first: int
    """Number of the first step that counts."""
    steps: int
    """Steps that count."""
    seconds: float
    """A step, on average, of the slowest rank: what happens once in ten steps counts with a tenth."""
    samples: float | None
    """A step, all ranks together; None where they were not counted."""
    losses: Mapping[int, float]
    """By step, of the first rank that has some."""
    memory: int | None
    """Highest bytes of any rank: of its device, or resident."""
    reached: frozenset[str] = field(default=frozenset())
    """Overrides that changed something."""
    problems: tuple[str, ...] = ()
    """Overrides that could not be put in place."""


def warm_up(recording: Recording) -> int:
    """Steps that the slowest rank needed to get warm."""
    return max((steady(process).warm_up_steps for process in recording.ranks if len(process.steps)), default=0)


def fences(skip: int, steps: int | None) -> list[int]:
    """Steps before which every run waits until its device is done: where the window may begin, and its end.

    Without them an arm that reads nothing back runs ahead of its device, and its steps seem as short as its
    launches. A change that warms up longer begins at a later one, up to a half.
    """
    if steps is None:
        return [skip]
    return sorted({skip + (steps - skip) * part // 4 for part in (0, 1, 2, 4)})


def first_step(recording: Recording, skip: int, steps: int | None) -> int:
    """The first step of a run's window: where all of it are warm, but for a half of them at most."""
    most = max(skip, (skip + steps_made(recording)) // 2)
    if FENCES not in _overrides(recording, reached=True):
        return min(max(skip, warm_up(recording)), most)
    cold = max((cold_steps(process) for process in recording.ranks if len(process.steps)), default=0)
    begins = [step for step in fences(skip, steps) if step <= most]
    return next((step for step in begins if step >= cold), begins[-1] if begins else skip)


def steps_made(recording: Recording) -> int:
    """Steps that every rank made."""
    made = [process.steps.column("index") for process in recording.ranks if len(process.steps)]
    return min((int(index[-1]) + 1 for index in made if len(index)), default=0)


def longest_rhythm(recording: Recording) -> int:
    """Steps between two events that come once in a while and cost something; 0 where all steps are alike."""
    found = [_rhythm(process, phase) for process in recording.ranks for phase in _OCCASIONAL]
    return max(found, default=0)


def _rhythm(process: Process, phase: str) -> int:
    state = steady(process)
    values, durations = state.values(phase), state.values("duration")
    if len(values) < 4 * FEWEST_STEPS or not state.seconds:
        return 0
    limit = max(_EVENTFUL * median(values), 0.25 * median(durations))
    events = [row for row, value in zip(state.rows, values, strict=True) if value > limit]
    share = math.fsum(value for value in values if value > limit) / state.seconds
    if len(events) < 2 or share < _SHARE or len(events) > len(values) / 4:
        return 0
    return int(median(after - before for before, after in pairwise(events)))


def window(recording: Recording, first: int, last: int | None = None) -> TrialWindow | None:
    """The steps from `first` on (to before `last`) of every rank; None where there are too few."""
    steps: list[int] = []
    seconds: list[float] = []
    samples: list[float] = []
    for process in recording.ranks:
        table = process.steps
        if not len(table):
            continue
        rows = [at for at, step in enumerate(table.column("index")) if step >= first and (last is None or step < last)]
        counts, durations, given = table.column("count"), table.column("duration"), table.column("samples")
        made = int(sum(counts[at] for at in rows))
        if made < FEWEST_STEPS:
            return None
        steps.append(made)
        seconds.append(math.fsum(durations[at] for at in rows) / made)
        samples.append(math.fsum(given[at] for at in rows) / made if len(given) else math.nan)
    if not steps:
        return None
    return TrialWindow(
        first=first,
        steps=min(steps),
        seconds=max(seconds),
        samples=None if any(map(math.isnan, samples)) else math.fsum(samples),
        losses=next((found for process in recording.ranks if (found := losses(process))), {}),
        memory=_memory(recording),
        reached=_overrides(recording, reached=True),
        problems=tuple(sorted(_overrides(recording, reached=False))),
    )


def losses(process: Process) -> dict[int, float]:
    """Loss by step, where it was seen; the column has NaN for `not seen` too, so a NaN loss is a record."""
    table = process.steps
    pairs = zip(table.column("index"), table.column("loss"), strict=False)
    return {int(index): loss for index, loss in pairs if not math.isnan(loss)} | {
        int(record.get("step")): math.nan
        for record in process.of("numeric")
        if record.get("kind") == "nan-loss" and isinstance(record.get("step"), int)
    }


def _memory(recording: Recording) -> int | None:
    for names in (("peak", "allocated"), ("rss",)):
        columns = [process.steps.column(name) for process in recording.ranks for name in names]
        every = [value for column in columns for value in column if not math.isnan(value)]
        if every:
            return int(max(every))
    return None


def _overrides(recording: Recording, *, reached: bool) -> frozenset[str]:
    """Names of overrides that were reached, or that were not, with the reason."""
    records = [record for process in recording.ranks for record in process.of("override")]
    return frozenset(
        f"{record.get('name')}: {record.get('error')}" if record.get("error") else str(record.get("name"))
        for record in records
        if bool(record.get("reached")) is reached
    )
