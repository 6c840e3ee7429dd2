"""NUM004 vanishing-gradients."""

from collections.abc import Iterator
from statistics import median

from gpudoctor.model import Check, Code, Confidence, Finding, Patient, Reads, Severity, Threshold
from gpudoctor.model.reading.recordings.costs import place_of
from gpudoctor.model.reading.recordings.curves import numerics
from gpudoctor.model.reading.recordings.judged import demanded, measured, spot
from gpudoctor.model.signs.recording import Record
from gpudoctor.model.unavailable import Unavailable


class VanishingGradients(Check):
    """The gradients of the first layers are next to nothing.

    What it finds:
        A model whose first layer's gradient norm is under a thousandth of its last layer's, with mean absolute
        gradients under 1e-7.
    Why it hurts:
        Layers that get no gradient do not learn: the model is a random projection with a trained head.
    How it knows:
        From a recording: the norms of the first and the last layer's gradients and the mean absolute gradient,
        as the probe read them; the median of the readings counts.
    False alarms:
        Frozen or pretrained first layers with a small rate of their own have small gradients and are fine: both
        limits must be crossed.
    Remedies:
        ReLU-like activations for sigmoid and tanh, normalisation, residual connections, an initialisation that
        fits.
    References:
        - https://proceedings.mlr.press/v9/glorot10a.html
        - https://github.com/shiningrain/AUTOTRAINER
    """

    code = Code("NUM004")
    name = "vanishing-gradients"
    reads = frozenset({Reads.RECORDING})
    severity = Severity.WARNING
    thresholds = (
        Threshold(
            name="ratio",
            default=1e-3,
            unit="1",
            source="CATALOGUE NUM004; AutoTrainer",
            meaning="A ratio of the first to the last layer below this is a finding.",
        ),
        Threshold(
            name="mean",
            default=1e-7,
            unit="1",
            source="CATALOGUE NUM004; SageMaker's VanishingGradient",
            meaning="Mean absolute gradients must be below this too.",
        ),
        Threshold(
            name="readings",
            default=3,
            unit="{readings}",
            source="convention: a median needs three",
            meaning="Fewer readings say nothing.",
        ),
    )

    def examine(self, patient: Patient) -> Iterator[Finding]:
        run = demanded(patient)
        process = run.lead.process
        readings = [item for item in numerics(process, "norms") if _number(item, "last") > 0]
        if len(readings) < self.limit("readings"):
            raise Unavailable("the recording holds too few norms of single layers")
        ratio = median(_number(item, "first") / _number(item, "last") for item in readings)
        means = [
            _number(item, "first_mean" if item.get("first_mean") is not None else "mean") for item in readings
        ]
        if ratio >= self.limit("ratio") or median(means) >= self.limit("mean"):
            return
        last, made = readings[-1], process.first("model")
        where = place_of(made) if made is not None else None
        yield self.finding(
            f"The gradient of {last.get('first_name') or 'the first layer'} has {ratio:.2g} of the norm of "
            "that of "
            f"{last.get('last_name') or 'the last layer'}, and the mean absolute gradient is "
            f"{median(means):.2g}.",
            evidence=(
                *([spot(patient, where)] if where is not None else []),
                measured("first_to_last_norm", ratio, "1", run.recording),
                measured("mean_absolute_gradient", median(means), "1", run.recording),
            ),
            confidence=Confidence.CONFIRMED,
            facts=(("layer", str(last.get("first_name") or "")),),
        )


def _number(record: Record, name: str) -> float:
    value = record.get(name)
    return float(value) if isinstance(value, int | float) else 0.0
