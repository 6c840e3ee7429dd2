"""NUM010 constant-output."""

from collections.abc import Iterator

from gpudoctor.analysis.run.curves import numerics
from gpudoctor.analysis.run.line_costs import place_of
from gpudoctor.analysis.run.risky_operations import loss_lines
from gpudoctor.analysis.run.steady_run import measured, spot
from gpudoctor.model import Check, Code, Confidence, Cost, Finding, Patient, Reads, Severity, Threshold


class ConstantOutput(Check):
    """The model gives every sample of a batch the same output.

    What it finds:
        Outputs that are equal bit for bit for all samples of a batch, in every loss looked at from some step to
        the end of the recording, while the targets of these samples differ. Cross-entropy, binary
        cross-entropy, and the losses of squared, Huber and smooth L1 distance.
    Why it hurts:
        The output no longer depends on the input. The usual causes are units that are all dead (ReLU after too
        large a step, inputs that were not scaled), an input that is multiplied by zero or left out, and weights
        that a bad checkpoint set to zero. Only the last bias learns.
    How it knows:
        From a recording: the graph behind the loss keeps its arguments; the first 64 samples of the batch
        are compared. Each of the first losses is looked at, then as many as their price allows.
    False alarms:
        Batches under 8 samples, targets that are all equal, outputs that were expanded from one value on
        purpose, and several losses in one graph are no finding. One batch with different outputs ends the
        count.
    Remedies:
        Find the first layer whose output is the same for two samples; scale the inputs, lower the learning
        rate, use LeakyReLU or GELU, start from other weights.
    References:
        - https://docs.pytorch.org/docs/stable/generated/torch.nn.LeakyReLU.html
        - https://arxiv.org/abs/1903.06733
    """

    code = Code("NUM010")
    name = "constant-output"
    reads = frozenset({Reads.RECORDING})
    severity = Severity.ERROR
    thresholds = (
        Threshold(
            name="losses",
            default=30,
            unit="{steps}",
            source="convention: longer than a warm-up in which a head that starts at zero has not moved yet",
            meaning="Losses in a row, and steps between the first and the last of them, that show it.",
        ),
    )

    def examine(self, patient: Patient) -> Iterator[Finding]:
        recording = patient.recorded_run
        for process in recording.ranks:
            for record in numerics(process, "alike")[-1:]:
                found, since = int(record.get("found") or 0), int(record.get("since") or 0)
                passed = int(record.get("step") or 0) - since
                if min(found, passed) < self.limit("losses"):
                    continue
                where = place_of(record)
                places = loss_lines(patient) + ([where] if where is not None else [])
                spans = list(dict.fromkeys(spot(patient, place) for place in places))
                begins = "from the first step on" if since < 2 else f"from step {since} on"
                yield self.finding(
                    f"The model gives every sample of a batch the same output, {begins}, in all {found} losses "
                    "that were looked at; the targets differ.",
                    evidence=(*spans, measured("losses_of_equal_outputs", found, "{steps}", recording)),
                    confidence=Confidence.CONFIRMED,
                    cost=Cost(breaks="the output does not depend on the input"),
                    subject=f"{spans[0].path}:{spans[0].line}" if spans else "output",
                    facts=(("since", since),),
                )
                return
