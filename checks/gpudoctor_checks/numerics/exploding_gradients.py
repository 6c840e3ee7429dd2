"""NUM003 exploding-gradients."""

from collections.abc import Iterator

from gpudoctor.model import Check, Code, Confidence, Cost, Finding, Patient, Reads, Severity, Threshold
from gpudoctor.model.reading.recordings.costs import place_of
from gpudoctor.model.reading.recordings.curves import explosion, loss_curve, norm_curve
from gpudoctor.model.reading.recordings.judged import demanded, measured, spot
from gpudoctor.model.reading.recordings.operations import loss_lines
from gpudoctor.model.signs.recording import Process
from gpudoctor.model.unavailable import Unavailable


class ExplodingGradients(Check):
    """The norm of the gradients grows out of hand.

    What it finds:
        Gradient norms whose late median is ten times, or a hundred times, that of the first half of the run.
    Why it hurts:
        Updates follow the gradients: they throw the weights about, the loss rises or jumps, and NaN is the
        usual end.
    How it knows:
        From a recording: the norms of all gradients that the probe read. Medians are compared, so that a single
        spike, which every training has, is no finding; and the loss must not have got better meanwhile.
    False alarms:
        Losses that are scaled up on purpose, and weights that start at zero, have norms that grow while the
        loss falls: silent.
    Remedies:
        Clipping, a lower rate or a warm-up, and a look at the initialisation.
    References:
        - https://arxiv.org/abs/1211.5063
        - https://pytorch.org/docs/stable/generated/torch.nn.utils.clip_grad_norm_.html
    """

    code = Code("NUM003")
    name = "exploding-gradients"
    reads = frozenset({Reads.RECORDING})
    severity = Severity.WARNING
    thresholds = (
        Threshold(
            name="growth_warned",
            default=10.0,
            unit="1",
            source="CATALOGUE NUM003",
            meaning="Growth of the norm by this factor is a warning.",
        ),
        Threshold(
            name="growth_error",
            default=100.0,
            unit="1",
            source="CATALOGUE NUM003",
            meaning="Growth by this factor is an error.",
        ),
        Threshold(
            name="norm_error",
            default=1e6,
            unit="1",
            source="TheDeepChecker: above 1e6",
            meaning="A late norm above this, grown tenfold, is an error.",
        ),
    )

    def examine(self, patient: Patient) -> Iterator[Finding]:
        run = demanded(patient)
        process = run.lead.process
        grown = explosion(norm_curve(process))
        if grown is None:
            raise Unavailable("the recording holds fewer than eight gradient norms")
        ratio, late = grown
        if ratio < self.limit("growth_warned") or _better(process):
            return
        far = ratio >= self.limit("growth_error") or late > self.limit("norm_error")
        made = process.last("optimizer")
        where = place_of(made) if made is not None else None
        yield self.finding(
            f"The norm of the gradients has grown {ratio:.3g} times: it ends at {late:.3g}, and its median "
            "over the "
            f"first half of the run was {late / ratio:.3g}.",
            evidence=(
                *([spot(patient, where)] if where is not None else []),
                *(spot(patient, place) for place in loss_lines(patient)),
                measured("gradient_norm", late, "1", run.recording),
                measured("gradient_norm_growth", ratio, "1", run.recording),
            ),
            confidence=Confidence.CONFIRMED,
            severity=Severity.ERROR if far else Severity.WARNING,
            cost=Cost(breaks="the updates are out of hand, and NaN is near" if far else None),
        )


def _better(process: Process) -> bool:
    """Whether the loss has fallen although its gradients grew."""
    loss = loss_curve(process)
    return len(loss) >= 8 and loss.late < 0.9 * loss.early
