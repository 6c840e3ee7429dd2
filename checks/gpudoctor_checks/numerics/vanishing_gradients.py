"""NUM004 vanishing-gradients."""

from collections.abc import Iterator
from statistics import median

from gpudoctor.analysis import of_run
from gpudoctor.analysis.run.steady_run import demanded, spots
from gpudoctor.lang import say
from gpudoctor.model import Check, Finding, Patient, Reads, Threshold
from gpudoctor.model.unavailable import Unavailable


class VanishingGradients(Check):
    """The gradients of the first layers are almost zero.

    What it finds:
        A model whose first layer's gradient norm is under a thousandth of its last layer's, and under 1e-5
        itself.
    Why it hurts:
        Layers that get no gradient do not learn: the model is a random projection with a trained head.
    How it knows:
        From a recording: the norms of the first and the last layer's gradients as the probe read them. The
        median of the readings counts.
    False alarms:
        Frozen or pretrained first layers with their own small rate have small gradients and are fine. The
        finding needs both limits.
    Remedies:
        Use ReLU-like activations instead of sigmoid and tanh, normalisation, residual connections, and a
        suitable initialisation.
    References:
        - https://proceedings.mlr.press/v9/glorot10a.html
    """

    code = "NUM004"
    judges = "gradients"
    silent_on_synthetic = "its weights are random"
    reads = frozenset({Reads.RECORDING})
    thresholds = (
        Threshold("ratio", 1e-3, "1", "AutoTrainer", "A ratio of the first to the last layer below this is a finding."),
        Threshold(
            "first_norm",
            1e-5,
            "1",
            "convention: a mean of 1e-7 in a layer of 10,000 elements; AutoTrainer 1e-4",
            "The norm of the first layer's gradient must be below this too.",
        ),
        Threshold("readings", 3, "{readings}", "convention: a median needs three", "Fewer readings are not judged."),
    )

    def examine(self, patient: Patient) -> Iterator[Finding]:
        run = demanded(patient)
        process = run.lead.process
        readings = [item for item in of_run.numerics(process, "norms") if _number(item, "last") > 0]
        if len(readings) < self.limit("readings"):
            raise Unavailable(say("the recording has too few norms of single layers"))
        ratio = median(_number(item, "first") / _number(item, "last") for item in readings)
        first = median(_number(item, "first") for item in readings)
        if ratio >= self.limit("ratio") or first >= self.limit("first_norm"):
            return
        last = readings[-1]
        yield self.finding(
            say(
                "The gradient of {first} has a norm of {norm:.2g}, {ratio:.2g} of that of {last}.",
                first=last.get("first_name") or say("the first layer"),
                norm=first,
                ratio=ratio,
                last=last.get("last_name") or say("the last layer"),
            ),
            evidence=(
                *spots(patient, *map(of_run.place_of, process.of("model")[:1])),
                run.measured("first_to_last_norm", ratio),
                run.measured("first_gradient_norm", first),
            ),
            breaks="the first layers do not learn",
        )


def _number(record: "of_run.Record", name: str) -> float:
    value = record.get(name)
    return float(value) if isinstance(value, int | float) else 0.0
