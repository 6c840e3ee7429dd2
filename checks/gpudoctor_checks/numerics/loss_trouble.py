"""NUM007 loss-trouble."""

from collections.abc import Iterator

from gpudoctor.analysis import of_run
from gpudoctor.analysis.run.steady_run import Run, demanded, spots
from gpudoctor.lang import say
from gpudoctor.model import Check, Facts, Finding, Patient, Reads, Severity, Threshold
from gpudoctor.model.unavailable import Unavailable
from gpudoctor.text import figure


class LossTrouble(Check):
    """The loss diverges, jumps, or has plateaued.

    What it finds:
        - A loss that ends above its start and above twice its best.
        - One that repeatedly jumps, to ten times its running median and half-way back to its start.
        - One that changes by less than one percent in 500 steps.
    Why it hurts:
        A training that does not improve costs as much as one that does.
    How it knows:
        From a recording: the loss that goes into each backward pass. It compares medians of the start, the best
        part and the end. For a plateau it uses the test of Mann and Kendall.
    False alarms:
        Losses without a floor (policies, negative likelihoods, adversarial games) need not fall: gpudoctor
        judges only losses that are always positive. If the source steps an environment (reinforcement
        learning), the targets follow the returns, and the check is silent. A warm restart in progress resembles
        divergence. Small batches of hard and easy samples make an improving loss jump. If it has halved, jumps
        are not a finding.
    Remedies:
        Lower the rate, add warm-up or clipping. For a plateau, train on one batch repeatedly: a model that
        cannot learn it has a bug.
    References:
        - https://docs.aws.amazon.com/sagemaker/latest/dg/loss-not-decreasing.html
    """

    code = "NUM007"
    judges = "loss"
    silent_on_synthetic = "a model cannot learn random tokens"
    reads = frozenset({Reads.RECORDING})
    thresholds = (
        Threshold(
            "spike",
            10.0,
            "1",
            "Megatron-LM: ten times the usual value",
            "A loss this many times the running median is a spike.",
        ),
        Threshold(
            "spikes", 3, "{steps}", "convention: once or twice is a bad batch", "This many spikes are a warning."
        ),
        Threshold(
            "spike_of_start",
            0.5,
            "1",
            "convention: a jump undoes learning; a hard batch near zero loss does not",
            "A spike reaches at least this part of the loss at the start.",
        ),
        Threshold(
            "better",
            0.5,
            "1",
            "convention: a loss that has halved shows learning; small batches differ by as much",
            "Spikes of a loss that ends below this part of its start are not a finding.",
        ),
        Threshold(
            "stalled_steps",
            500,
            "{steps}",
            "convention: gpudoctor's own choice, no published figure is known",
            "A loss that plateaus for this many steps is a note.",
        ),
    )

    def examine(self, patient: Patient) -> Iterator[Finding]:
        run = demanded(patient)
        if of_run.gathers(patient):
            raise Unavailable(say("the data changes with the policy: the loss follows the returns"))
        curve = of_run.loss_curve(run.lead.process)
        if len(curve) < 30:
            raise Unavailable(say("the recording has fewer than 30 losses"))
        if len(run.lead.process.of("optimizer")) > 1:
            raise Unavailable(say("several optimizers: adversarial losses need not fall"))
        jumps = of_run.spikes(curve, self.limit("spike"), self.limit("spike_of_start")) if min(curve.values) > 0 else []
        if of_run.diverges(curve):
            yield self._found(
                patient,
                run,
                curve,
                "diverging",
                Severity.WARNING,
                say(
                    "The loss diverges: it began at {early}, was {best} at best and ends at {late}.",
                    early=figure(curve.early),
                    best=figure(min(curve.best, curve.early)),
                    late=figure(curve.late),
                ),
            )
        elif len(jumps) >= self.limit("spikes") and curve.late >= self.limit("better") * curve.early:
            yield self._found(
                patient,
                run,
                curve,
                "spiking",
                Severity.WARNING,
                say(
                    "The loss jumps to more than {limit:g} times its running median {count} times, "
                    "first at step {step}.",
                    limit=self.limit("spike"),
                    count=len(jumps),
                    step=jumps[0],
                ),
            )
        elif of_run.stalls(curve, int(self.limit("stalled_steps"))):
            yield self._found(
                patient,
                run,
                curve,
                "stalled",
                Severity.NOTE,
                say(
                    "The loss has plateaued: {early:.4g} at the start and {late:.4g} after {steps} steps.",
                    early=curve.early,
                    late=curve.late,
                    steps=curve.steps[-1] - curve.steps[0] + 1,
                ),
            )

    def _found(
        self, patient: Patient, run: Run, curve: "of_run.Curve", kind: str, severity: Severity, message: str
    ) -> Finding:
        made = run.lead.process.of("optimizer")[-1:]
        return self.finding(
            message,
            evidence=(
                *spots(patient, *map(of_run.place_of, made), *of_run.loss_lines(patient)),
                run.measured("loss_at_start", curve.early),
                run.measured("loss_at_best", curve.best),
                run.measured("loss_at_end", curve.late),
            ),
            severity=severity,
            breaks=say("the loss does not improve") if severity is not Severity.NOTE else None,
            detail=Facts(kind=kind),
        )
