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
    from gpudoctor.analysis.run.training.schedule import Scheduled

_SAID = {
    "early": template("The learning rate is {last:.2g} since step {since:,} of {steps:,}, after a peak of {peak:.2g}."),
    "rises": template("The learning rate reaches its end at step {since:,} of {steps:,} and rises again."),
    "warm": template("The warm-up never ends: the rate still rises at step {steps:,}, to {peak:.2g} of {base:.2g}."),
    "never": template("{name} was never stepped in {steps:,} steps: the rate stays {last:.2g}."),
    "plateau": template(
        '{name} lowers the rate with mode="{mode}" while its metric goes from {first:.3g} to {now:.3g}.'
    ),
    "slow": template("{name} does not come to its end: the rate is {last:.2g} at step {steps:,}, its peak {peak:.2g}."),
}


@frozen
class ScheduleMisfitDetail(Detail):
    """What the rule reads."""

    kind: str
    """`early`, `rises`, `warm`, `slow`, `never`, `plateau`."""
    calls: int
    """Steps of the scheduler that the run makes."""
    mode: str
    """The other direction, for a metric that gets better by it."""


class ScheduleMisfit(Check):
    """The schedule of the learning rate does not fit the steps of the run.

    What it finds:
        In a recorded run:
        - a rate that is almost 0 long before the end
        - a cosine that rises again
        - a schedule that does not come to its end
        - a warm-up that is longer than the run
        - a scheduler that is never stepped
        - `ReduceLROnPlateau` with the wrong `mode`
    Why it hurts:
        Steps at a rate of 0 change nothing. A rate that never falls leaves the loss above what the same run
        reaches. Both look like a model that has stopped learning.
    How it knows:
        It compares the number that the scheduler was made for with the calls of its `step()`. It also reads the
        rate of each step. It judges the end only of a run that reached it.
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
    judges = "schedule"

    def examine(self, patient: Patient) -> Iterator[Finding]:
        """A finding for each scheduler."""
        from gpudoctor.analysis.run.line_costs import place_of
        from gpudoctor.analysis.run.training.schedule import misfits

        run = demanded(patient, 1)
        for kind, item, since in misfits(run.recording):
            level = Severity.WARNING
            calls, broken = round(item.reach), kind == "early" and not item.rates[-1][1]
            if kind == "slow" and not item.unit:
                level = Severity.NOTE  # a run may stop early on purpose
            yield confirmed(
                self,
                (),
                _said(kind, item, since, calls),
                evidence=(*spots(patient, place_of(item.record)), run.measured("scheduler_steps", calls, "1")),
                severity=Severity.ERROR if broken else level,
                cost=Cost(breaks=say("the model learns nothing since step {since}", since=since) if broken else None),
                detail=ScheduleMisfitDetail(
                    kind=kind, calls=calls or item.steps, mode="max" if item.record.get("mode") == "min" else "min"
                ),
            )


def _said(kind: str, item: "Scheduled", since: int, calls: int) -> str:
    """The numbers of a misfit."""
    metrics, rates = item.record.get("metrics") or [0.0], [rate for _, rate in item.rates] or [0.0]
    said = say(
        _SAID[kind],
        name=str(item.record.get("name")),
        mode=str(item.record.get("mode")),
        first=metrics[0],
        now=metrics[-1],
        since=since,
        steps=item.steps,
        base=float(item.record.get("base") or 0),
        last=rates[-1],
        peak=max(rates),
    )
    if not item.total:
        return said
    why = say(
        " {name} is {total:,.0f}{unit}, and step() is called {calls:,} times.",
        name=item.name,
        total=item.total,
        unit=say(" ({what})", what=item.unit) if item.unit else "",
        calls=calls,
    )
    return concatenated("", [said, why])
