"""NUM010 constant-output."""

from collections.abc import Iterator

from gpudoctor.analysis import of_run
from gpudoctor.analysis.observation import confirmed
from gpudoctor.analysis.run.steady_run import Run, demanded, measured, spots
from gpudoctor.lang import say
from gpudoctor.model import Check, Code, Confidence, Cost, Detail, Finding, Patient, Reads, Severity, Threshold
from gpudoctor.model.records import frozen

_NO_GRADIENT = say("the layers that compute the score get no gradient and never learn")


@frozen(kw_only=False)
class ConstantOutputDetail(Detail):
    """What the rule reads."""

    single: bool
    """A softmax over one score, not a layer whose units are dead."""
    since: int = 0
    """Updates that were made before the outputs were the same; 0 is from the start."""


class ConstantOutput(Check):
    """The model gives every sample of a batch the same output.

    What it finds:
        Outputs that are equal bit for bit for all samples of a batch. This lasts from some step to the end of
        the recording. The targets of these samples differ. Cross-entropy, binary cross-entropy, and the losses
        of squared, Huber and smooth L1 distance. A softmax over a dimension with one score, which is one for
        any score. It is the output, or weights inside the network.
    Why it hurts:
        The output no longer depends on the input. The usual causes:
        - all units are dead (ReLU after too large a step, inputs that were not scaled)
        - an input is multiplied by zero or left out
        - a bad checkpoint set weights to zero

        Only the last bias learns.
    How it knows:
        From a recording: the graph behind the loss keeps its arguments; gpudoctor compares the first 64 samples
        of the batch. It examines each of the first losses, then as many as the probe's time budget allows. The
        graphs of the first losses show the softmaxes and their sizes.
    False alarms:
        Batches under 8 samples, targets that are all equal, and outputs expanded from one value on purpose are
        not findings. Neither are several losses in one graph. One batch with different outputs ends the count.
        A softmax that sometimes has one score (a sentence of one word) is not a finding. Neither is one over
        the parts of a sample that one layer scores.
    Remedies:
        Find the first layer whose output is the same for two samples. Scale the inputs, lower the learning
        rate, use LeakyReLU or GELU, start from other weights. For one score use the sigmoid, or apply the
        softmax over the dimension of the parts.
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
            meaning="Consecutive losses, and steps between the first and the last of them, that show it.",
        ),
        Threshold(
            name="graphs",
            default=8,
            unit="{steps}",
            source="LOOP006's threshold: correctness counts in events",
            meaning="Examined losses, all with a softmax over one score.",
        ),
    )

    def examine(self, patient: Patient) -> Iterator[Finding]:
        run = demanded(patient, 1)
        single = list(self._single(patient, run))
        yield from single or self._alike(patient)

    def _single(self, patient: Patient, run: Run) -> Iterator[Finding]:
        for record in of_run.numerics(run.lead.process, "single-score")[-1:]:
            losses, closed = int(record.get("losses") or 0), int(record.get("closed") or 0)
            if losses < self.limit("graphs"):
                return
            places = spots(patient, *of_run.loss_lines(patient)[:2], of_run.place_of(record))
            all_of_it = closed == losses
            yield confirmed(
                self,
                (),
                say(
                    "A softmax runs over a dimension of size 1 in all {losses} examined losses. "
                    "It gives 1 for any score, and no parameter gets a gradient."
                    if all_of_it
                    else "A softmax runs over a dimension of size 1 in all {losses} examined losses. "
                    "It gives 1 for any score, and the layers that compute the score get no gradient.",
                    losses=losses,
                ),
                evidence=(
                    *list({(span.path, span.line): span for span in places[::-1]}.values())[::-1],
                    run.measured("losses_with_one_score", losses, "{steps}"),
                ),
                severity=Severity.ERROR if all_of_it else Severity.WARNING,
                cost=Cost(breaks="the loss does not depend on the model" if all_of_it else _NO_GRADIENT),
                detail=ConstantOutputDetail(single=True),
            )

    def _alike(self, patient: Patient) -> Iterator[Finding]:
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
                    confidence=Confidence.CONFIRMED,
                    cost=Cost(breaks="the output does not depend on the input"),
                    subject=f"{spans[0].path}:{spans[0].line}" if spans else "output",
                    detail=ConstantOutputDetail(single=False, since=since),
                    effect_of=Code("NUM009") if since else None,
                )
                return
