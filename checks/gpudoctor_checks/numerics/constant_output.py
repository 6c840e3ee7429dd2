"""NUM010 constant-output."""

from collections.abc import Iterator

from gpudoctor.analysis import of_run
from gpudoctor.analysis.run.steady_run import demanded, measured, spots
from gpudoctor.lang import say
from gpudoctor.model import Check, Facts, Finding, Patient, Reads, Severity, Threshold


class ConstantOutput(Check):
    """The model gives every sample of a batch the same output.

    What it finds:
        Outputs that are equal bit for bit for all samples of a batch. This lasts from some step to the end of
        the recording. The targets of these samples differ. Cross-entropy, binary cross-entropy, and the losses
        of squared, Huber and smooth L1 distance.
    Why it hurts:
        The output no longer depends on the input. The usual causes:
        - all units are dead (ReLU after too large a step, inputs that were not scaled)
        - an input is multiplied by zero or left out
        - a bad checkpoint set weights to zero

        Only the last bias learns.
    How it knows:
        From a recording: the graph behind the loss keeps its arguments; gpudoctor compares the first 64 samples
        of the batch. It examines each of the first losses, then as many as the probe's time budget allows.
    False alarms:
        Batches under 8 samples, targets that are all equal, and outputs expanded from one value on purpose are
        not findings. Neither are several losses in one graph. One batch with different outputs ends the count.
    Remedies:
        Find the first layer whose output is the same for two samples. Scale the inputs, lower the learning
        rate, use LeakyReLU or GELU, start from other weights.
    References:
        - https://docs.pytorch.org/docs/stable/generated/torch.nn.LeakyReLU.html
    """

    code = "NUM010"
    reads = frozenset({Reads.RECORDING})
    severity = Severity.ERROR
    thresholds = (
        Threshold(
            "losses",
            30,
            "{steps}",
            "convention: longer than a warm-up in which a head that starts at zero has not moved yet",
            "Consecutive losses, and steps between the first and the last of them, that show it.",
        ),
    )

    def examine(self, patient: Patient) -> Iterator[Finding]:
        demanded(patient, 1)
        recording = patient.recorded_run
        for process in recording.ranks:
            for record in of_run.numerics(process, "alike")[-1:]:
                found, since = int(record.get("found") or 0), int(record.get("since") or 0)
                passed = int(record.get("step") or 0) - since
                if min(found, passed) < self.limit("losses"):
                    continue
                spans = list(dict.fromkeys(spots(patient, *of_run.loss_lines(patient), of_run.place_of(record))))
                named = (say("from the first step on"), say("from the first update on"))
                begins = named[since] if since < len(named) else say("from step {since} on", since=since)
                yield self.finding(
                    say(
                        "The model gives every sample of a batch the same output, {since}, in all "
                        "{losses} examined losses; the targets differ.",
                        since=begins,
                        losses=found,
                    ),
                    evidence=(*spans, measured("losses_of_equal_outputs", found, "{steps}", recording)),
                    breaks="the output does not depend on the input",
                    subject=f"{spans[0].path}:{spans[0].line}" if spans else "output",
                    detail=Facts(since=since),
                    effect_of="NUM009" if since else None,
                )
                return
