"""The schedule of the learning rate against the steps that are made: the card's line, and what does not fit."""

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from statistics import median
from typing import Any, TypeAlias

from gpudoctor.analysis.memo import once
from gpudoctor.analysis.run.run_numbers import made_steps
from gpudoctor.analysis.run.training import integer
from gpudoctor.lang import say
from gpudoctor.lang.message import concatenated
from gpudoctor.model.records import frozen
from gpudoctor.model.run import CardLine
from gpudoctor.model.signs.recording import Process, Record, Recording

_LEAST = 20
"""Steps, and rates that were read, below which no schedule is judged."""
_OFTEN = 0.5
"""Calls a step from which on a scheduler is stepped by steps, and not by epochs."""
_LOW, _EARLY = 1e-5, 0.1
"""A rate of so much of its peak or less, in the last steps, so large a share of all."""
_UNDONE, _OVERDONE, _CYCLES = 0.67, 1.05, 2.95
"""Parts of a schedule: not come to its end, beyond it, and waves on purpose."""
_TOP, _BOTTOM, _AGAIN = 0.9, 0.05, 0.1
"""Parts of the peak: from which on the rate is up, down to which it is down, and from which on it has risen again."""
_WARM, _RISEN = 0.95, 1.02
"""Part of the base rate that a warm-up has reached which is over, and how much the rate rises in half of the steps in
one that is not.
"""
_MEASURED, _MOSTLY, _LOWERED = 5, 0.75, 0.99
"""Metrics that tell; share of them that are above the one before; part of the highest rate that is a lower one."""
_EVEN = 1e-6
"""Part of the peak that a constant rate differs by at most."""


@frozen
class Scheduled:
    """A scheduler that was stepped, or never was, beside the steps of its run."""

    record: Record
    steps: int
    epochs: int
    began: float
    """Where it stood when it was first stepped: above 0 where it was loaded."""
    each: float
    """Its steps in one of the training."""
    reach: float
    """Where it stands at the end."""
    ended: bool
    name: str
    total: float
    """What it believes the run to be, with the name of that number; 0 for a schedule without an end."""
    unit: str
    """What of the run the total counts, where that is no number of calls."""
    rates: tuple[tuple[int, float], ...]

    @property
    def calls(self) -> float:
        """How often it was stepped."""
        return self.reach - self.began

    @property
    def orphaned(self) -> bool:
        """Whether it was stepped after another optimizer had taken its own one's place."""
        orphan = self.record.get("orphan")
        return orphan is not None and float(self.record.get("position") or 0) > orphan


def ended(recording: Recording) -> bool:
    """Whether a run came to its own end: nobody stopped it, and it did not fail."""
    end = recording.end
    return end is not None and end.exit_code == 0 and end.stopped_by is None


@once
def scheduled(recording: Recording) -> tuple[Scheduled, ...]:
    """The schedulers of the first rank that were stepped, else the last one that never was."""
    process = next(iter(recording.ranks), None)
    if process is None:
        return ()
    last = {item.get("id"): item for item in process.of("schedule")}
    found = [_scheduled(recording, process, item) for item in last.values() if item.get("first")]
    stepped = [item for item in found if item.calls > 0]
    return tuple(stepped or found[-1:])


def _scheduled(recording: Recording, process: Process, item: Record) -> Scheduled:
    steps = made_steps(process)
    at, position = item.get("first")
    name, total = item.get("total") or ("", 0)
    made = integer(item, "made")
    step = integer(item, "step")
    stands = float(item.get("position") or 0)
    before = bool(item.get("before"))  # at the last look it was not yet stepped
    looked = step - at if before else step - at + 1
    each = (stands - position) / max(1, looked)
    left = steps - step + 1 if before else steps - step
    reach = stands + each * left if each >= _OFTEN else stands
    bounds = epochs_of(process)
    epochs = len(bounds) - 1
    batches = math.fsum(value for value in process.steps.column("batches") if math.isfinite(value))
    each_epoch = median(later - at for at, later in pairwise(bounds)) if epochs else steps
    of_epoch = {
        say("the batches of an epoch"): each_epoch * batches / max(1, steps),
        say("the steps of an epoch"): each_epoch,
    }
    of_run = {"": reach, say("all batches"): batches, say("all steps"): steps}
    of_run[say("the steps of all ranks together")] = steps * len(recording.ranks)
    # A run that was stopped shows whole epochs at most.
    known = {**of_run, **of_epoch, say("the epochs"): epochs} if ended(recording) else of_epoch
    fits = (unit for unit, value in known.items() if abs(value - total) <= max(1.0, 0.01 * total))
    return Scheduled(
        record=item,
        steps=steps,
        epochs=epochs,
        began=max(0, round(position - each * (at - max(0, made) - 1))),  # it is looked at before it is stepped
        each=each,
        reach=reach,
        ended=ended(recording),
        name=name,
        total=total,
        unit=next(fits, ""),
        rates=rates_of(process),
    )


def epochs_of(process: Process) -> list[int]:
    """The steps before which its epochs began, and the last one."""
    steps = process.steps
    rows = zip(steps.column("index"), steps.column("starts"), steps.column("evaluation"), strict=False)
    bounds = []
    evaluated = False
    for at, new, evaluating in rows:
        # The loader of the first evaluation is not yet known for one, and counts as started.
        first = evaluating > 0 and not evaluated
        evaluated = evaluated or first
        if new - first > 0:
            bounds.append(int(at))
    return [*bounds, made_steps(process)]


def rates_of(process: Process) -> tuple[tuple[int, float], ...]:
    """Step, from 1, and rate where it was read; nothing where several optimizers train."""
    if len(process.of("optimizer")) > 1:
        return ()
    rows = zip(process.steps.column("index"), process.steps.column("lr"), strict=False)
    return tuple((int(at) + 1, rate) for at, rate in rows if math.isfinite(rate))


Unfit: TypeAlias = tuple[str, Scheduled, int]
"""`early`, `rises`, `warm`, `slow`, `never`, `orphan` or `plateau`; a schedule that does not fit; since which step."""


@once
def misfits(recording: Recording) -> tuple[Unfit, ...]:
    """What of the schedules of a single training does not fit, one misfit a scheduler, the surest."""
    items = [item for item in scheduled(recording) if item.steps >= _LEAST]
    if any(integer(item.record, "made") > 0 for item in items):
        items = [item for item in items if item.orphaned]
    firsts = (next(_misfits(item), None) for item in items)
    return tuple(unfit for unfit in firsts if unfit is not None)


def _misfits(item: Scheduled) -> Iterator[Unfit]:
    """What does not fit, the surest first."""
    if item.orphaned:
        yield "orphan", item, 0
    elif "metrics" in item.record.fields:
        yield from _plateau(item)
    elif not item.calls:
        if item.ended and item.epochs >= 2:
            yield "never", item, 0
    elif len(item.rates) >= _LEAST:
        yield from _course(item)


def _course(item: Scheduled) -> Iterator[Unfit]:
    """What does not fit of the rates of a scheduler that was stepped."""
    values = [rate for _, rate in item.rates]
    peak = max(values)
    last, _ = item.rates[-1]
    since = _since(item.rates, _LOW * peak)
    # A rate that never was has its own check.
    if since > 1 and last - since + 1 >= _EARLY * last:
        yield "early", item, since
    low = _lowest(values)
    risen = max(values[low:], default=0.0) >= _AGAIN * peak
    beyond = item.reach > _OVERDONE * item.total > 0
    on_purpose = not item.unit and item.reach >= _CYCLES * item.total
    if risen and beyond and not on_purpose:
        at, _ = item.rates[low]
        yield "rises", item, at
    if not item.ended:
        return
    base = float(item.record.get("base") or 0.0)
    rising = values[-1] == peak > _RISEN * values[len(values) // 2]
    if rising and peak < _WARM * base:
        yield "warm", item, 0
    if item.reach <= _UNDONE * item.total:
        yield "slow", item, 0


def _lowest(values: Sequence[float]) -> int:
    """Where the rate has come down from its peak and stops falling; the number of values where it does not."""
    peak = max(values)
    top = next(place for place, rate in enumerate(values) if rate >= _TOP * peak)
    down = (place for place in range(top, len(values)) if values[place] <= _BOTTOM * peak)
    low = next(down, len(values))
    while low < len(values) - 1 and values[low + 1] <= values[low]:
        low += 1
    return low


def _since(rates: tuple[tuple[int, float], ...], limit: float) -> int:
    """The first step after which every rate is at most so much; 0 where none is."""
    since = 0
    for step, rate in reversed(rates):
        if rate > limit:
            break
        since = step
    return since


def _plateau(item: Scheduled) -> Iterator[Unfit]:
    """A metric that gets better all the time by the other direction, and lowers the rate."""
    metrics = [float(value) for value in item.record.get("metrics")]
    if len(metrics) < _MEASURED or not item.rates:
        return
    up = item.record.get("mode") == "min"
    if up and not 0 <= min(metrics) <= max(metrics) <= 1:
        return  # a loss on data that were not learned may rise from the first epoch on; a share has an end
    signed = [value if up else -value for value in metrics]
    best = signed.index(max(signed))  # a rate that was lowered for nothing lets the metric rise no more
    rises = [later > before for before, later in pairwise(signed[: best + 1])]
    rising = best + 1 >= _MEASURED and sum(rises) >= _MOSTLY * len(rises)
    values = [rate for _, rate in item.rates]
    lowered = values[-1] < _LOWERED * max(values)
    if rising and lowered and min(signed[1:]) > signed[0]:
        yield "plateau", item, 0


def schedule(recording: Recording) -> CardLine | None:
    """Peak and end of the rate, what the scheduler counts, and how often it was stepped."""
    rates = rates_of(recording.ranks[0]) if recording.ranks else ()
    if not rates:
        return None
    step, peak = max(rates, key=lambda item: item[1])
    at, last = rates[-1]
    steps = made_steps(recording.ranks[0])  # the rate of the last ones may not have been read
    since = _since(rates, 0.0)
    low = min(rate for _, rate in rates)
    facts: dict[str, Any] = {"peak": peak, "peak_step": step, "last": last, "steps": steps, "zero_since": since or None}
    if peak - low <= _EVEN * peak:
        parts = [say("rate {rate:.3g} in all {steps:,} steps", rate=peak, steps=steps)]
    else:
        if 0 < since < steps:
            end = say("0 from step {since:,} of {steps:,}", since=since, steps=steps)
        else:
            end = say("{last:.2g} at step {at:,}", last=last, at=at)
        parts = [say("peak {peak:.3g} at step {step:,}", peak=peak, step=step), end]
    for item in scheduled(recording)[:1]:
        if item.total:
            parts.append(say("{name} {total:,.0f}", name=item.name, total=item.total))
        if item.calls and item.each >= _OFTEN:
            parts.append(say("stepped {calls:,.0f} times", calls=item.calls))
        elif item.calls:
            # It may be gone before its last step, as the function that made it is.
            parts.append(say("stepped at least {calls:,.0f} times", calls=item.calls))
        facts.update(total=item.total or None, calls=round(item.calls), each=round(item.each, 3))
    return CardLine(name="schedule", text=concatenated(", ", parts), facts=facts)
