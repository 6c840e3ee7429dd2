"""NUM003 exploding-gradients."""

from collections.abc import Iterator
from statistics import median

from gpudoctor.analysis import of_run
from gpudoctor.analysis.run.steady_run import Run, demanded, spots
from gpudoctor.lang import say
from gpudoctor.model import Check, Facts, Finding, Patient, Reads, Severity, Threshold
from gpudoctor.model.unavailable import Unavailable
from gpudoctor.text import figure


class ExplodingGradients(Check):
    """The gradients explode: their norm grows without limit.

    What it finds:
        - Gradient norms whose late median is ten times, or a hundred times, that of the first half of the run.
        - Norms above a million in the median step, while the loss does not fall.
    Why it hurts:
        Updates follow the gradients: the weights change too much, the loss rises or jumps, and often becomes
        NaN.
    How it knows:
        From a recording: the norms of all gradients that the probe read. It compares medians, so a single
        spike, which every training has, is not a finding. Nor are large gradients at the start alone. The loss
        must not have improved meanwhile. Of several optimizers, whose norms differ in size, the upper quartile
        of the first half counts.
    False alarms:
        Losses that are scaled up on purpose, and weights that start at zero, have growing norms while the loss
        falls. They are not reported. Nor are gradients of a model that is not in the optimizer: they are never
        cleared and add up (NUM008). In reinforcement learning they follow the returns: there only norms above
        a million count.
    Remedies:
        Clip the gradients, lower the rate or add a warm-up, and check the initialisation.
    References:
        - https://arxiv.org/abs/1211.5063
    """

    code = "NUM003"
    judges = "gradients"
    silent_on_synthetic = "its weights are random"
    reads = frozenset({Reads.RECORDING})
    thresholds = (
        Threshold(
            "growth_warned",
            10.0,
            "1",
            "convention: gpudoctor's own choice, no published figure is known",
            "Growth of the norm by this factor is a warning.",
        ),
        Threshold(
            "growth_error",
            100.0,
            "1",
            "convention: gpudoctor's own choice, no published figure is known",
            "Growth by this factor is an error.",
        ),
        Threshold(
            "norm_error",
            1e6,
            "1",
            "TheDeepChecker: above 1e6",
            "A late norm above this, grown tenfold, is an error; a median above it is a warning.",
        ),
    )

    def examine(self, patient: Patient) -> Iterator[Finding]:
        run = demanded(patient)
        process = run.lead.process
        curve = of_run.norm_curve(process)
        grown = of_run.explosion(curve, len(process.of("optimizer")) > 1)
        if grown is None:
            raise Unavailable(say("the recording has fewer than eight gradient norms"))
        if of_run.unheld(process):
            return  # no step applies these gradients, and none clears them: NUM008
        ratio, late = grown
        loss = of_run.loss_curve(process)
        if len(loss) >= 8 and loss.late < 0.9 * loss.early:
            return
        if ratio < self.limit("growth_warned"):
            yield from self._huge(patient, run, curve)
        elif not of_run.gathers(patient):  # in reinforcement learning the norms follow the returns
            yield self._grown(patient, run, ratio, late)

    def _grown(self, patient: Patient, run: Run, ratio: float, late: float) -> Finding:
        process = run.lead.process
        clipped = bool(of_run.numerics(process, "clips"))
        far = not clipped and (ratio >= self.limit("growth_error") or late > self.limit("norm_error"))
        made = process.of("optimizer")[-1:]
        return self.finding(
            say(
                "The norm of the gradients has grown {ratio} times. In the first half of the run it was "
                "{usual}, at the end it is {late}.",
                ratio=figure(ratio),
                late=figure(late),
                usual=figure(late / ratio),
            ),
            evidence=(
                *spots(patient, *map(of_run.place_of, made), *of_run.loss_lines(patient)),
                run.measured("gradient_norm", late),
                run.measured("gradient_norm_growth", ratio),
            ),
            severity=Severity.ERROR if far else Severity.WARNING,
            breaks="the updates are too large, and NaN is likely to follow" if far else None,
            detail=Facts(clipped=clipped),
        )

    def _huge(self, patient: Patient, run: Run, curve: "of_run.Curve") -> Iterator[Finding]:
        """Norms that are out of hand from the start, so that they need not grow."""
        usual, clipped = median(curve.values), bool(of_run.numerics(run.lead.process, "clips"))
        if usual <= self.limit("norm_error"):
            return
        yield self.finding(
            say(
                "The norm of the gradients is {usual} in the median step: the updates are too large.",
                usual=figure(usual),
            ),
            evidence=(
                *spots(patient, *of_run.loss_lines(patient)),
                run.measured("gradient_norm", usual),
                run.measured("gradient_norm_at_most", max(curve.values)),
            ),
            severity=Severity.WARNING,
            breaks=None if clipped else say("single updates undo what the model learned"),
            detail=Facts(clipped=clipped),
        )
