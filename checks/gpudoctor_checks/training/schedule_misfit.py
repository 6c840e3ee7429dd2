"""TRAIN008: the schedule of the learning rate does not fit the steps that are made."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpudoctor.analysis.observation import confirmed
from gpudoctor.analysis.run.steady_run import demanded, spots
from gpudoctor.lang import say, template
from gpudoctor.lang.message import concatenated
from gpudoctor.model import Check, Code, Cost, Detail, Finding, Patient, Reads, Severity
from gpudoctor.model.records import frozen

if TYPE_CHECKING:
    from gpudoctor.analysis.run.training.schedule import Unfit

_SAID = {
    "early": template("The learning rate is 0 since step {since:,} of {steps:,}: no later step changes a weight."),
    "faded": template(
        "The learning rate fell from {peak:.2g} to {last:.2g}, below a 100,000th of its peak since step {since:,} of "
        "{steps:,}."
    ),
    "rises": template("The learning rate reaches its end at step {since:,} of {steps:,} and rises again."),
    "warm": template("The warm-up never ends: the rate still rises at step {steps:,}, to {peak:.2g} of {base:.2g}."),
    "never": template(
        "{name} was never stepped, in {steps:,} steps and {epochs:,.0f} epochs: the rate stays {last:.2g}."
    ),
    "plateau": template(
        '{name} lowers the rate with mode="{mode}" while its metric goes from {first:.3g} to {now:.3g}, better by '
        "the other direction."
    ),
    "slow": template(
        "{name} does not come to its end: the rate is {last:.2g} after {steps:,} steps, of a peak of {peak:.2g}."
    ),
}


@frozen
class ScheduleMisfitDetail(Detail):
    """What the rule reads."""

    kind: str
    """As `Unfit.kind`."""
    calls: int
    """Steps of the scheduler that the run makes."""
    mode: str = ""
    """The other direction, for a metric that gets better by it."""


class ScheduleMisfit(Check):
    """The schedule of the learning rate does not fit the steps of the run.

    What it finds:
        In a recorded run:
        - a rate that is 0, or almost 0, long before the end
        - a cosine that rises again
        - a schedule that counts batches and is stepped once an epoch, or the reverse
        - a warm-up that is longer than the run
        - a scheduler that is never stepped
        - `ReduceLROnPlateau` with the wrong `mode`
    Why it hurts:
        Steps at a rate of 0 change nothing. A rate that never falls leaves the loss above what the same run
        reaches. Both look like a model that has stopped learning.
    How it knows:
        It compares the number that the scheduler was made for with the calls of its `step()`. It also reads the
        rate of each step. It judges the end only of a run that reached it, or of a `Trainer`, which knows it.
    False alarms:
        A run that stops early on purpose leaves its schedule unfinished: that is a note. Restarts on purpose are
        not reported.
    Remedies:
        Give the scheduler the number of times that you call its `step()`.
    References:
        - https://docs.pytorch.org/docs/stable/optim.html#how-to-adjust-learning-rate
        - https://github.com/sthalles/SimCLR/issues/8
        - https://huggingface.co/docs/accelerate/concept_guides/performance#learning-rates
    """

    code = Code("TRAIN008")
    name = "schedule-misfit"
    silent_on_synthetic = "a bounded run ends before its schedule"
    reads = frozenset({Reads.RECORDING})
    severity = Severity.WARNING

    def examine(self, patient: Patient) -> Iterator[Finding]:
        """A finding for each scheduler."""
        from gpudoctor.analysis.run.line_costs import LinePlace, place_of
        from gpudoctor.analysis.run.training.schedule import misfits

        run = demanded(patient, 1)
        for misfit in misfits(run.recording):
            item = misfit.schedule
            path, line = item.record.get("called") or (None, None)
            called = LinePlace(path=path, line=line) if path and line else None
            breaks = say("the model learns nothing since step {since}", since=misfit.since)
            level = Severity.ERROR if misfit.kind == "early" else Severity.WARNING if misfit.sure else Severity.NOTE
            yield confirmed(
                self,
                (),
                _said(misfit),
                evidence=(
                    *spots(patient, place_of(item.record), called),
                    run.measured("scheduler_steps", round(item.calls), "1"),
                ),
                severity=level,
                cost=Cost(breaks=breaks if misfit.kind == "early" else None),
                detail=ScheduleMisfitDetail(
                    kind=misfit.kind,
                    calls=round(item.due or item.calls) or item.steps,
                    mode={"min": "max", "max": "min"}.get(misfit.name, ""),
                ),
            )


def _said(misfit: "Unfit") -> str:
    """The numbers of a misfit."""
    item, metrics = misfit.schedule, misfit.schedule.record.get("metrics") or [0.0]
    said = say(
        _SAID[misfit.kind],
        name=str(item.record.get("name")),
        mode=misfit.name,
        first=metrics[0],
        now=metrics[-1],
        since=misfit.since,
        steps=item.steps,
        epochs=item.epochs,
        base=float(item.record.get("base") or 0),
        last=item.rates[-1][1] if item.rates else 0.0,
        peak=max((rate for _, rate in item.rates), default=0.0),
    )
    if not misfit.total:
        return said
    unit, each = item.unit(misfit.total), ""
    if not 0.5 <= item.each < 1.5:
        each = say(", {each:.2g} times a step", each=item.each) if item.each > 1 else say(", once an epoch")
    why = say(
        " It counts {total:,.0f}{named}{unit}, and step() is called {due:,.0f} times{each}.",
        total=misfit.total,
        named=say(" ({name})", name=misfit.name) if misfit.name else "",
        unit=say(", {what}", what=unit) if unit else "",
        due=item.due if item.due is not None else item.calls,
        each=each,
    )
    return concatenated("", [said, why])
