"""NUM003 exploding-gradients."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import dropwhile
from statistics import median

from gpudoctor.analysis.run.curves import Curve, explosion, loss_curve, moving, norm_curve, numerics, usual_of
from gpudoctor.analysis.run.line_costs import place_of
from gpudoctor.analysis.run.risky_operations import loss_lines
from gpudoctor.analysis.run.rollouts import gathers
from gpudoctor.analysis.run.steady_run import Run, demanded, spots
from gpudoctor.analysis.run.untrained_models import unheld
from gpudoctor.lang import say
from gpudoctor.model import Check, Code, Confidence, Cost, Detail, Finding, Patient, Reads, Severity, Threshold
from gpudoctor.model.unavailable import Unavailable
from gpudoctor.text import figure


@dataclass(frozen=True, slots=True)
class ExplodingGradientsDetail(Detail):
    """What the rule reads."""

    clipped: bool
    """The program clips: the norms are those before it."""


class ExplodingGradients(Check):
    """The gradients explode: their norm grows without limit.

    What it finds:
        - Gradient norms whose late median is ten times, or a hundred times, that of the first half of the run.
        - Norms above a million in the median step, while the loss does not fall. Or norms that repeatedly jump
          to a hundred times their median (recurrent nets).
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
        - https://pytorch.org/docs/stable/generated/torch.nn.utils.clip_grad_norm_.html
    """

    code = Code("NUM003")
    name = "exploding-gradients"
    judges = "gradients"
    silent_on_synthetic = "its weights are random"
    reads = frozenset({Reads.RECORDING})
    severity = Severity.WARNING
    thresholds = (
        Threshold(
            name="growth_warned",
            default=10.0,
            unit="1",
            source="convention: gpudoctor's own choice, no published figure is known",
            meaning="Growth of the norm by this factor is a warning.",
        ),
        Threshold(
            name="growth_error",
            default=100.0,
            unit="1",
            source="convention: gpudoctor's own choice, no published figure is known",
            meaning="Growth by this factor is an error.",
        ),
        Threshold(
            name="norm_error",
            default=1e6,
            unit="1",
            source="TheDeepChecker: above 1e6",
            meaning="A late norm above this, grown tenfold, is an error; a median above it is a warning.",
        ),
        Threshold(
            name="norm_of_loss",
            default=10.0,
            unit="1",
            source="convention: a loss in the scale of large targets has gradients of that scale",
            meaning="Norms above `norm_error` and this many times the loss are wrong even while the loss falls.",
        ),
        Threshold(
            name="jumps",
            default=3,
            unit="{steps}",
            source="convention, as for NUM007: once or twice is a bad batch",
            meaning="Fewer jumps of the norm are not judged.",
        ),
        Threshold(
            name="jump_share",
            default=0.02,
            unit="1",
            source="convention: clipping rare spikes is usual, but a cliff causes them repeatedly",
            meaning="A norm that jumps in this share of the readings is a warning.",
        ),
    )

    def examine(self, patient: Patient) -> Iterator[Finding]:
        run = demanded(patient)
        process = run.lead.process
        several = len(process.of("optimizer")) > 1
        grown = explosion(norm_curve(process), several)
        if grown is None:
            raise Unavailable(say("the recording has fewer than eight gradient norms"))
        if unheld(process):
            return  # no step applies these gradients, and none clears them: NUM008
        ratio, late = grown
        loss, norms = loss_curve(process), norm_curve(process).values
        better = len(loss) >= 8 and loss.late < 0.9 * loss.early
        # Large for the loss, too, which has the scale of its targets.
        steep = len(loss) > 0 and median(norms) > self.limit("norm_of_loss") * median(map(abs, loss.values))
        if not better or steep:
            yield from self._huge(patient, run, norm_curve(process))
        if better or gathers(patient):  # in reinforcement learning the norms follow the returns
            return
        if ratio < self.limit("growth_warned"):
            yield from self._from_the_start(patient, run, norm_curve(process), several)
            return
        clipped = bool(numerics(process, "clips"))
        far = not clipped and (ratio >= self.limit("growth_error") or late > self.limit("norm_error"))
        made = process.of("optimizer")[-1:]
        yield self.finding(
            say(
                "The norm of the gradients has grown {ratio} times. In the first half of the run it was "
                "{usual}, at the end it is {late}.",
                ratio=figure(ratio),
                late=figure(late),
                usual=figure(late / ratio),
            ),
            evidence=(
                *spots(patient, *map(place_of, made), *loss_lines(patient)),
                run.measured("gradient_norm", late),
                run.measured("gradient_norm_growth", ratio),
            ),
            confidence=Confidence.CONFIRMED,
            severity=Severity.ERROR if far else Severity.WARNING,
            cost=Cost(breaks="the updates are too large, and NaN is likely to follow" if far else None),
            detail=ExplodingGradientsDetail(clipped),
        )

    def _from_the_start(self, patient: Patient, run: Run, curve: Curve, several: bool) -> Iterator[Finding]:
        """Norms that do not grow, and jump again and again."""
        values = moving(curve)
        usual = usual_of(values, several) if values else 0.0
        if not values or usual > self.limit("norm_error"):
            return
        # A training begins with large gradients: what falls from there for good has not jumped.
        high = self.limit("growth_error") * usual
        jumps = [value for value in dropwhile(lambda value: value > usual, values) if value > high]
        if len(jumps) >= max(self.limit("jumps"), self.limit("jump_share") * len(curve)):
            message = say(
                "The norm of the gradients jumps above {limit:g} times its usual size of "
                "{usual}. That is so in {jumps} of {readings} readings (up to "
                "{highest}). The loss has not fallen.",
                limit=self.limit("growth_error"),
                usual=figure(usual),
                jumps=len(jumps),
                readings=len(curve),
                highest=figure(max(jumps)),
            )
            yield self._all_the_time(patient, run, curve, message)

    def _huge(self, patient: Patient, run: Run, curve: Curve) -> Iterator[Finding]:
        """Norms that are out of hand from the start, so that they need not grow."""
        usual, (ratio, _) = median(curve.values), explosion(curve) or (1.0, 0.0)
        if usual > self.limit("norm_error") and ratio < self.limit("growth_warned"):
            message = say(
                "The norm of the gradients is {usual} in the median step: the updates are too large.",
                usual=figure(usual),
            )
            yield self._all_the_time(patient, run, curve, message)

    def _all_the_time(self, patient: Patient, run: Run, curve: Curve, message: str) -> Finding:
        clipped = bool(numerics(run.lead.process, "clips"))
        return self.finding(
            message,
            evidence=(
                *spots(patient, *loss_lines(patient)),
                run.measured("gradient_norm", median(curve.values)),
                run.measured("gradient_norm_at_most", max(curve.values)),
            ),
            confidence=Confidence.CONFIRMED,
            severity=Severity.WARNING,
            cost=Cost(breaks=None if clipped else say("single updates undo what the model learned")),
            detail=ExplodingGradientsDetail(clipped),
        )
