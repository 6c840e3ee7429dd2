"""The schedule of the learning rate against the steps that are made: the card's line, and what does not fit."""

import math
from collections.abc import Iterator
from itertools import islice, pairwise
from typing import Any, TypeAlias

from gpudoctor.analysis.memo import once
from gpudoctor.analysis.run.run_numbers import made_steps
from gpudoctor.lang import say, template
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


@frozen
class Scheduled:
    """A scheduler that was stepped, or never was, beside the steps of its run."""

    record: Record
    steps: int
    epochs: float
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


def ended(recording: Recording) -> bool:
    """Whether a run came to its own end: nobody stopped it, and it did not fail."""
    end = recording.end
    return end is not None and end.exit_code == 0 and end.stopped_by is None


@once
def scheduled(recording: Recording) -> tuple[Scheduled, ...]:
    """The schedulers of the first rank that were stepped, else the last one that never was."""
    process = next(iter(recording.ranks), None)
    last = {item.get("id"): item for item in (process.of("schedule") if process is not None else ())}
    found = [_scheduled(recording, recording.ranks[0], item) for item in last.values() if item.get("first")]
    return tuple(item for item in found if item.calls > 0) or tuple(found[-1:])


def _scheduled(recording: Recording, process: Process, item: Record) -> Scheduled:
    steps, (at, position), (name, total) = made_steps(process), item.get("first"), item.get("total") or ("", 0)
    made, step, stands = int(item.get("made") or 0), int(item.get("step") or 0), float(item.get("position") or 0)
    before = bool(item.get("before"))  # at the last look it was not yet stepped
    each = (stands - position) / max(1, step - at + (not before))
    reach = stands + (each * (steps - step + before) if each >= _OFTEN else 0)
    epochs, batches = (
        math.fsum(value for value in process.steps.column(name) if math.isfinite(value))
        for name in ("starts", "batches")
    )
    units = {
        "": reach,
        say("all batches"): batches,
        say("all steps"): steps,
        say("the batches of an epoch"): batches / max(1.0, epochs),
        say("the epochs"): epochs,
    }
    fits = (unit for unit, value in units.items() if abs(value - total) <= max(1.0, 0.01 * total))
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
        unit=next(fits, "") if ended(recording) else "",
        rates=rates_of(process),
    )


def rates_of(process: Process) -> tuple[tuple[int, float], ...]:
    """Step, from 1, and rate where it was read; nothing where several optimizers train."""
    rows = zip(process.steps.column("index"), process.steps.column("lr"), strict=False)
    return tuple((int(at) + 1, rate) for at, rate in rows if math.isfinite(rate) and len(process.of("optimizer")) < 2)


Unfit: TypeAlias = tuple[str, Scheduled, int]
"""`early`, `rises`, `warm`, `slow`, `never` or `plateau`; a schedule that does not fit; since which step."""


@once
def misfits(recording: Recording) -> tuple[Unfit, ...]:
    """What of the schedules of a single training does not fit, one misfit a scheduler, the surest."""
    items = [item for item in scheduled(recording) if item.steps >= _LEAST]
    single = all(int(item.record.get("made") or 0) <= 0 for item in items)
    return tuple(unfit for item in items if single for unfit in islice(_misfits(item), 1))


def _misfits(item: Scheduled) -> Iterator[Unfit]:
    rates, values = item.rates, [rate for _, rate in item.rates]
    if "metrics" in item.record.fields:
        yield from _plateau(item)
    elif not item.calls:
        if item.ended and item.epochs >= 2:
            yield "never", item, 0
    elif len(rates) >= _LEAST:
        peak, base = max(values), float(item.record.get("base") or 0.0)
        since = _since(rates, _LOW * peak)
        if since > 1 and rates[-1][0] - since + 1 >= _EARLY * rates[-1][0]:  # a rate that never was has its own check
            yield "early", item, since
        top = next(place for place, rate in enumerate(values) if rate >= 0.9 * peak)
        low = next((place for place in range(top, len(values)) if values[place] <= 0.05 * peak), len(values))
        while low < len(values) - 1 and values[low + 1] <= values[low]:
            low += 1
        over = item.reach > _OVERDONE * item.total > 0 and (item.unit or item.reach < _CYCLES * item.total)
        if over and max(values[low:], default=0.0) >= 0.1 * peak:
            yield "rises", item, rates[low][0]
        if item.ended and peak < 0.95 * base and values[-1] == peak > 1.02 * values[len(values) // 2]:
            yield "warm", item, 0
        if item.ended and item.reach <= _UNDONE * item.total:
            yield "slow", item, 0


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
    metrics, up = [float(value) for value in item.record.get("metrics")], item.record.get("mode") == "min"
    if len(metrics) < 5 or (up and not 0 <= min(metrics) <= max(metrics) <= 1):
        return  # a loss on data that were not learned may rise from the first epoch on; a share has an end
    signed = [value if up else -value for value in metrics]
    rising = sum(later > before for before, later in pairwise(signed)) >= 0.75 * (len(signed) - 1)
    lowered = bool(item.rates) and item.rates[-1][1] < 0.99 * max(rate for _, rate in item.rates)
    if rising and lowered and min(signed[1:]) > signed[0]:
        yield "plateau", item, 0


def schedule(recording: Recording) -> CardLine | None:
    """Peak and end of the rate, what the scheduler counts, and how often it was stepped."""
    rates = rates_of(recording.ranks[0]) if recording.ranks else ()
    if not rates:
        return None
    (step, peak), (at, last) = max(rates, key=lambda item: item[1]), rates[-1]
    steps = made_steps(recording.ranks[0])  # the rate of the last ones may not have been read
    since, low = _since(rates, 0.0), min(rate for _, rate in rates)
    facts: dict[str, Any] = {"peak": peak, "peak_step": step, "last": last, "steps": steps, "zero_since": since or None}
    if peak - low <= 1e-6 * peak:
        parts = [say("rate {rate:.3g} in all {steps:,} steps", rate=peak, steps=steps)]
    else:
        end = say("0 from step {since:,} of {steps:,}", since=since, steps=steps)
        if not 0 < since < steps:
            end = say("{last:.2g} at step {at:,}", last=last, at=at)
        parts = [say("peak {peak:.3g} at step {step:,}", peak=peak, step=step), end]
    for item in scheduled(recording)[:1]:
        parts += [say("{name} {total:,.0f}", name=item.name, total=item.total)] if item.total else []
        often = item.each >= _OFTEN  # else it may be gone before its last step, as the function that made it is
        said = template("stepped {calls:,.0f} times") if often else template("stepped at least {calls:,.0f} times")
        parts += [say(said, calls=item.calls)] if item.calls else []
        facts.update(total=item.total or None, calls=round(item.calls), each=round(item.each, 3))
    return CardLine(name="schedule", text=concatenated(", ", parts), facts=facts)
