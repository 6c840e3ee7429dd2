"""The schedule of the learning rate against the steps that are made: the card's line, and what does not fit."""

import math
from collections.abc import Iterator, Mapping
from itertools import pairwise
from statistics import median

from gpudoctor.analysis.memo import once
from gpudoctor.analysis.run.steady_state import counts
from gpudoctor.lang import say
from gpudoctor.lang.message import concatenated
from gpudoctor.model.records import frozen
from gpudoctor.model.run import CardLine
from gpudoctor.model.signs.recording import Process, Record, Recording

LEAST = 20
"""Steps, and rates that were read, below which no schedule is judged."""
_OFTEN = 0.5
"""Calls a step from which on a scheduler is stepped by steps, and not by epochs."""
_TOTALS = ("T_max", "total_steps", "num_training_steps", "total_iters")
_LOW = (("early", 0.0, 0.1), ("faded", 1e-5, 0.25))
"""A rate of so much of its peak or less, in the last steps, so large a share of all."""
_UNDONE, _OVERDONE, _CYCLES = 0.67, 1.05, 2.95
"""Parts of a schedule: not come to its end, beyond it, and waves on purpose."""


@frozen
class Scheduled:
    """A scheduler that was stepped, or never was, beside the steps of its run."""

    record: Record
    numbers: Mapping[str, float]
    steps: int
    ended: bool
    """Whether the run came to its own end."""
    epochs: float
    began: float
    """Where it stood when it was first stepped: above 0 where it was loaded."""
    calls: float
    each: float
    """Steps of the scheduler, and of one step of the training."""
    due: float | None
    """Where it will stand at the end of the run; None where nobody knows."""
    told: bool
    """Whether a framework said how many steps there will be."""
    units: tuple[tuple[str, float], ...]
    """What of the run may be counted, where its end is known."""
    rates: tuple[tuple[int, float], ...]

    @property
    def total(self) -> tuple[str, float]:
        """What it believes the run to be, with the name of that number; 0 for a schedule without an end."""
        own = self.numbers
        for prefix in ("", "last."):
            for name in _TOTALS:
                number = own.get(prefix + name, 0)
                falls = "power" in own or own.get(f"{prefix}start_factor", 0) > own.get(f"{prefix}end_factor", 1)
                if number > 0 and (name != "total_iters" or falls):
                    return name, number + (own.get("milestones", 0) if prefix else 0)
        return "", 0.0

    def unit(self, total: float) -> str | None:
        """What of the run a total counts, where that is no number of calls."""
        fits = (name for name, value in self.units if value >= 2 and _alike(total, value))
        return next(fits, None) if self.due and total and not _alike(total, self.due) else None

    @property
    def guess(self) -> float:
        """The number of a schedule of the program's own that is one of the run's; 0 where none is."""
        return max((value for value in self.numbers.values() if value >= 10 and self.unit(value)), default=0.0)


def _alike(one: float, other: float) -> bool:
    return abs(one - other) <= max(1.0, 0.01 * max(one, other))


def ended(recording: Recording) -> bool:
    """Whether a run came to its own end: nobody stopped it, and it did not fail."""
    end = recording.end
    return end is not None and end.exit_code == 0 and end.stopped_by is None


@once
def scheduled(recording: Recording) -> tuple[Scheduled, ...]:
    """The schedulers of the first rank that were stepped, else the last one that never was."""
    records = recording.ranks[0].of("schedule") if recording.ranks else ()
    last = {item.get("id"): item for item in records if item.get("numbers") is not None}
    found = [_scheduled(recording, recording.ranks[0], item) for item in last.values()]
    return tuple(item for item in found if item.calls > 0) or tuple(found[-1:])


def _scheduled(recording: Recording, process: Process, item: Record) -> Scheduled:
    steps, ends, world = int(sum(counts(process))), ended(recording), len(recording.ranks)
    told = max((int(plan.get("planned") or 0) for plan in process.of("schedule")), default=0)
    expected, made, began = told or steps * ends, max(0, int(item.get("made") or 0)), float(item.get("began") or 0)
    calls = float(item.get("position") or 0) - began
    each = calls / max(1, int(item.get("step") or 0) - made)
    calls = each * (steps - made) if each >= _OFTEN else calls
    epochs, batches, samples = (
        math.fsum(value for value in process.steps.column(name) if math.isfinite(value))
        for name in ("starts", "batches", "samples")
    )
    more = expected / max(1, steps)
    units = (
        (say("all batches"), batches * more),
        (say("all steps"), float(expected)),
        (say("the batches of an epoch"), batches / max(1.0, epochs)),
        (say("the epochs"), epochs * more),
        (say("all samples"), samples * more),
        (say("the steps of all ranks"), float(expected * world)),
        (say("the batches of all ranks"), batches * more * world),
    )
    numbers = {name: float(value) for name, value in item.get("numbers").items() if value is not None}
    return Scheduled(
        record=item,
        numbers=numbers,
        steps=steps,
        ended=ends,
        epochs=epochs,
        began=began,
        calls=calls,
        each=each,
        due=(began + calls * more) if expected else None,
        told=bool(told),
        units=units if expected else (),
        rates=rates_of(process),
    )


def rates_of(process: Process) -> tuple[tuple[int, float], ...]:
    """Step, from 1, and rate where it was read; nothing where several optimizers train."""
    rows = zip(process.steps.column("index"), process.steps.column("lr"), strict=False)
    return tuple((int(at) + 1, rate) for at, rate in rows if math.isfinite(rate) and len(process.of("optimizer")) < 2)


@frozen(kw_only=False)
class Unfit:
    """A schedule that does not fit its run."""

    kind: str
    """`early`, `faded`, `rises`, `warm`, `slow`, `never`, `plateau`."""
    schedule: Scheduled
    since: int = 0
    """The step from which on it is so."""
    total: float = 0.0
    name: str = ""
    sure: bool = True
    """Whether nobody wants it so."""


@once
def misfits(recording: Recording) -> tuple[Unfit, ...]:
    """What of the schedules does not fit, one misfit a scheduler, the surest."""
    found = (next(_misfits(item), None) for item in scheduled(recording) if item.steps >= LEAST)
    return tuple(item for item in found if item is not None)


def _misfits(item: Scheduled) -> Iterator[Unfit]:
    (name, total), own, due, rates = item.total, item.numbers, item.due, item.rates
    if "metrics" in item.record.fields:
        yield from _plateau(item)
        return
    if not item.calls:
        if item.ended and item.epochs >= 2:
            yield Unfit("never", item)
        return
    if len(rates) >= LEAST:
        yield from _by_rates(item, [rate for _, rate in rates])
    total = total or (item.guess if not rates or rates[-1][1] > 0.7 * max(rate for _, rate in rates) else 0)
    if due and total and due <= _UNDONE * total:
        yield Unfit("slow", item, 0, total, name, sure=bool(item.unit(total)) or item.told)
    mark = own.get("step_size", own.get("first_milestone", 0.0))
    epoch = max(item.steps / max(1.0, item.epochs), due or 0)
    if item.ended and item.each < _OFTEN and epoch < mark <= item.steps and own.get("gamma", 1) != 1:
        yield Unfit("slow", item, 0, mark, "step_size" if "step_size" in own else "milestones")


def _by_rates(item: Scheduled, values: list[float]) -> Iterator[Unfit]:
    """What the rates show that were used."""
    (name, total), rates, reach = item.total, item.rates, item.began + item.calls
    peak, last, base = max(values), values[-1], float(item.record.get("base") or 0.0)
    for kind, part, share in _LOW:
        since = _since(rates, part * peak)
        if since > 1 and rates[-1][0] - since + 1 >= share * rates[-1][0]:  # a rate that never was has its own check
            yield Unfit(kind, item, since, total or item.guess, name)
    low = next((place for place, rate in enumerate(values) if rate <= 0.05 * peak and values[0] > rate), -1)
    if total and low >= 0 and reach > _OVERDONE * total and max(values[low:]) >= 0.1 * peak:
        while low + 1 < len(values) and values[low + 1] <= values[low]:
            low += 1
        if item.unit(total) or reach < _CYCLES * total:
            yield Unfit("rises", item, rates[low][0], total, name)
    if item.due and peak < 0.95 * base and last == peak and last > 1.02 * values[len(values) // 2]:
        warm = item.numbers.get("num_warmup_steps", 0.0)
        yield Unfit("warm", item, 0, warm, "num_warmup_steps" if warm else "")


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
    metrics, mode = [float(value) for value in item.record.get("metrics") or ()], str(item.record.get("mode"))
    if len(metrics) < 5 or mode not in ("min", "max"):
        return
    up = mode == "min"
    changes = [(later - before) * (1 if up else -1) for before, later in pairwise(metrics)]
    never = min(metrics[1:]) > metrics[0] if up else max(metrics[1:]) < metrics[0]
    lowered = bool(item.rates) and item.rates[-1][1] < 0.99 * max(rate for _, rate in item.rates)
    # A loss on data that were not learned may rise from the first epoch on; a share or a percentage has an end.
    share = min(metrics) >= 0 and (max(metrics) <= 1.0 or (max(metrics) <= 100.0 and median(metrics) > 20))
    if never and lowered and sum(change > 0 for change in changes) >= 0.75 * len(changes) and (share or not up):
        yield Unfit("plateau", item, name=mode)


def schedule(recording: Recording) -> CardLine | None:
    """Peak and end of the rate, what the scheduler counts, and how often it was stepped."""
    found, rates = scheduled(recording)[:1], rates_of(recording.ranks[0]) if recording.ranks else ()
    if not rates:
        return None
    (step, peak), (steps, last) = max(rates, key=lambda item: item[1]), rates[-1]
    since = _since(rates, 0.0)
    if peak - min(rate for _, rate in rates) <= 1e-6 * peak:
        parts = [say("rate {rate:.3g} in all {steps:,} steps", rate=peak, steps=steps)]
    else:
        parts = [
            say("peak {peak:.3g} at step {step:,}", peak=peak, step=step),
            say("0 from step {since:,} of {steps:,}", since=since, steps=steps)
            if 0 < since < steps
            else say("{last:.2g} at step {steps:,}", last=last, steps=steps),
        ]
    facts = {"peak": peak, "peak_step": step, "last": last, "steps": steps, "zero_since": since or None}
    for item in found:
        name, total = item.total
        parts += [say("{name} {total:,.0f}", name=name, total=total)] if total else []
        more = item.each >= _OFTEN and abs(item.each - 1) > 0.05
        parts.append(
            say("stepped {each:.2g} times a step", each=item.each)
            if more
            else say("stepped {calls:,.0f} times", calls=item.calls)
        )
        facts.update(total=total or None, calls=round(item.calls), each=round(item.each, 3))
    return CardLine(name="schedule", text=concatenated(", ", parts), facts=facts)
