"""LOOP006: probabilities are given to a loss that applies softmax itself."""

from collections.abc import Iterator

from gpudoctor.analysis import of_run
from gpudoctor.analysis.observation import confirmed
from gpudoctor.analysis.run.steady_run import Run, demanded, spots
from gpudoctor.lang import say
from gpudoctor.model import Check, Cost, Finding, Patient, Reads, Severity, Threshold

_PLACES = 2


class DoubleSoftmax(Check):
    """Probabilities are given to a loss that applies softmax or sigmoid itself.

    What it finds:
        The output of `softmax` in `CrossEntropyLoss` or `F.cross_entropy`, or of `sigmoid` in
        `BCEWithLogitsLoss`, in a recorded run. Also `log_softmax` before cross-entropy, which changes nothing
        but is computed twice (a note).
    Why it hurts:
        The loss applies softmax to its input again. The second softmax is almost flat, because its inputs are
        between 0 and 1. With 10 classes the loss cannot fall below 1.46 even for a perfect model. Gradients are
        small, and training is slow and less accurate. No error is raised.
    How it knows:
        From a recording: the graphs of the first losses show which operation produced the input. Functions,
        files and configs do not hide it.
    False alarms:
        Softmax for metrics or sampling, NLLLoss after log_softmax, soft targets as the second argument and
        evaluation are not findings.
    Remedies:
        Pass the raw logits to the loss; apply softmax only where you need probabilities, outside of the loss.
    References:
        - https://docs.pytorch.org/docs/stable/generated/torch.nn.CrossEntropyLoss.html
    """

    code = "LOOP006"
    reads = frozenset({Reads.RECORDING})
    severity = Severity.ERROR
    thresholds = (
        Threshold(
            "losses",
            8,
            "{steps}",
            "convention: correctness counts in events",
            "The inputs of fewer recorded losses are not judged.",
        ),
    )

    def examine(self, patient: Patient) -> Iterator[Finding]:
        run = demanded(patient, 1)
        for seen in of_run.numerics(run.lead.process, "normalised")[-1:]:
            for how, count in seen.get("made_by") or ():
                if int(count) >= self.limit("losses"):
                    yield self._measured(patient, run, seen, str(how), int(count))

    def _measured(self, patient: Patient, run: Run, seen: "of_run.Record", how: str, count: int) -> Finding:
        applies = "sigmoid" if how == "sigmoid" else "softmax"
        spans = list(dict.fromkeys(spots(patient, *of_run.loss_lines(patient)[:_PLACES], of_run.place_of(seen))))
        wrong = how != "log_softmax"
        said = say("it applies it to probabilities") if wrong else say("the result is the same, computed twice")
        return confirmed(
            self,
            (),
            say(
                "The loss applies {applies} itself, and its input was already the output of {how} in {count} of {seen} "
                "losses: {said}{at}.",
                applies=applies,
                how=how,
                count=count,
                seen=int(seen.get("losses") or 0),
                said=said,
                at=of_run.at(spans),
            ),
            evidence=(*spans, run.measured("losses_of_probabilities", count, "{steps}")),
            severity=Severity.ERROR if wrong else Severity.NOTE,
            cost=Cost(breaks=_breaks(how) if wrong else None),
        )


def _breaks(kind: str) -> str:
    return say(
        "the loss sees {kind} of {kind} and cannot separate confident from unsure ones: training learns little",
        kind=kind,
    )
