"""TRAIN008: the schedule of the learning rate does not fit the steps that are made."""

from collections.abc import Iterator

from gpudoctor.analysis import of_run
from gpudoctor.analysis.run.steady_run import demanded
from gpudoctor.analysis.run.training import told
from gpudoctor.lang import say, template
from gpudoctor.lang.message import concatenated
from gpudoctor.model import Check, Code, Finding, Patient, Reads, Severity

_SAID = {
    "early": template("The learning rate is {last:.2g} since step {since:,} of {steps:,}, after a peak of {peak:.2g}."),
    "rises": template("The learning rate reaches its end at step {since:,} of {steps:,} and rises again."),
    "warm": template("The warm-up never ends: the rate still rises at step {at:,}, to {peak:.2g} of {base:.2g}."),
    "never": template("{name} was never stepped in {steps:,} steps: the rate stays {last:.2g}."),
    "plateau": template(
        '{name} lowers the rate with mode="{mode}" while its metric goes from {first:.3g} to {now:.3g}.'
    ),
    "orphan": template("{name} changes the rate of an optimizer that no longer steps: another one has its parameters."),
    "slow": template("{name} does not come to its end: the rate is {last:.2g} at step {at:,}, its peak {peak:.2g}."),
}


class ScheduleMisfit(Check):
    """The schedule of the learning rate does not fit the steps of the run.

    What it finds:
        In a recorded run:
        - a rate that is almost 0 long before the end
        - a cosine that rises again
        - a schedule that does not come to its end
        - a warm-up that is longer than the run
        - a scheduler that is never stepped, or whose optimizer another one replaced
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
        for how, item, since in of_run.misfits(demanded(patient, 1).recording):
            metrics, rates = item.record.get("metrics") or [0.0], [rate for _, rate in item.rates] or [0.0]
            message = say(
                _SAID[how],
                name=str(item.record.get("name")),
                mode=str(item.record.get("mode")),
                first=metrics[0],
                now=metrics[-1],
                since=since,
                steps=item.steps,
                at=item.rates[-1][0] if item.rates else item.steps,
                base=float(item.record.get("base") or 0),
                last=rates[-1],
                peak=max(rates),
            )
            why = say(
                " {name} is {total:,.0f}{unit}, and the scheduler is stepped {calls:,} times.",
                name=item.name,
                total=item.total,
                unit=say(" ({what})", what=item.unit) if item.unit else "",
                calls=round(item.reach),
            )
            text = concatenated("", [message, why]) if item.total and how != "orphan" else message
            breaks = say("the model learns nothing since step {since}", since=since)
            broken = how == "early" and not rates[-1]
            noted = how == "slow" and not item.unit  # a run may stop early on purpose
            level = Severity.NOTE if noted else None
            place, calls = of_run.place_of(item.record), round(item.reach)
            yield told(self, patient, how, text, calls, place, severity=level, breaks=breaks if broken else "")
