"""LOOP006: probabilities are given to a loss that applies softmax itself."""

import re
from collections.abc import Iterator

from gpudoctor.analysis import of_run
from gpudoctor.analysis.observation import confirmed
from gpudoctor.analysis.run.steady_run import Run, demanded, spots
from gpudoctor.analysis.source.probabilities import maker
from gpudoctor.lang import say
from gpudoctor.model import Check, Code, Cost, Detail, Finding, Patient, Reads, Severity, Threshold, Unavailable
from gpudoctor.model.records import frozen

_MAKERS = {
    "softmax": ("torch.nn.Softmax", "torch.nn.Softmax2d"),
    "log_softmax": ("torch.nn.LogSoftmax",),
    "sigmoid": ("torch.nn.Sigmoid",),
}
"""Classes of layers, by what they apply."""
_PLACES = 2
_TAKEN = {
    "dimension": (
        say("log_softmax over another dimension than that of the classes"),
        say("the loss can fall without separating the right class from the others"),
    ),
    "softmax": (
        say("probabilities without their logarithm"),
        say("the loss hardly separates confident from unsure predictions"),
    ),
    "scores": (say("scores that no log_softmax has normalised"), say("the loss falls without limit as scores grow")),
}
"""What `nll_loss` was given instead of log-probabilities, and what comes of it."""

EVALUATES = re.compile(
    r"eval|test|valid|infer|predict|score|metric|accuracy|generate|sample|plot|visual", re.IGNORECASE
)


@frozen
class DoubleSoftmaxDetail(Detail):
    """What the rule reads."""

    how: str
    """What the loss is given: `softmax`, `sigmoid`, ..."""
    loss: str
    """The loss's name."""


class DoubleSoftmax(Check):
    """Probabilities are given to a loss that applies softmax or sigmoid itself.

    What it finds:
        The output of `softmax` in `CrossEntropyLoss` or `F.cross_entropy`, or of `sigmoid` in
        `BCEWithLogitsLoss`, in a recorded run. Also `log_softmax` before cross-entropy, which changes nothing
        but is computed twice (a note). Inputs of `nll_loss` that are not log-probabilities of the classes.
        Examples: `log_softmax` over another dimension, softmax without a logarithm, or the scores themselves.
    Why it hurts:
        The loss applies softmax to its input again. The second softmax is almost flat, because its inputs are
        between 0 and 1. With 10 classes the loss cannot fall below 1.46 even for a perfect model. Gradients are
        small, and training is slow and less accurate. No error is raised.
    How it knows:
        From a recording: the graphs of the first losses show which operation produced the input. Functions,
        files and configs do not hide it. For `nll_loss` the recorder sums the probabilities of some samples:
        their sum must be one.
    False alarms:
        Softmax for metrics or sampling, NLLLoss after log_softmax, soft targets as the second argument and
        evaluation are not findings. Nor is a softmax over the first dimension.
    Remedies:
        Pass the raw logits to the loss; apply softmax only where you need probabilities, outside of the loss.
    References:
        - https://docs.pytorch.org/docs/stable/generated/torch.nn.CrossEntropyLoss.html
        - https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.log_softmax.html
    """

    code = Code("LOOP006")
    name = "double-softmax"
    reads = frozenset({Reads.RECORDING})
    severity = Severity.ERROR
    thresholds = (
        Threshold(
            name="losses",
            default=8,
            unit="{steps}",
            source="convention: correctness counts in events",
            meaning="The inputs of fewer recorded losses are not judged.",
        ),
    )

    def examine(self, patient: Patient) -> Iterator[Finding]:
        run = demanded(patient, 1)
        yield from self._no_probabilities(patient, run)
        for seen in of_run.numerics(run.lead.process, "normalised")[-1:]:
            for how, count in seen.get("made_by") or ():
                if int(count) >= self.limit("losses"):
                    yield self._measured(patient, run, seen, str(how), int(count))

    def _measured(self, patient: Patient, run: Run, seen: "of_run.Record", how: str, count: int) -> Finding:
        applies = "sigmoid" if how == "sigmoid" else "softmax"
        places = (*made_at(patient, how)[:_PLACES], *of_run.loss_lines(patient)[:_PLACES], of_run.place_of(seen))
        spans = spots(patient, *places)
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
            evidence=(*list(dict.fromkeys(spans)), run.measured("losses_of_probabilities", count, "{steps}")),
            severity=Severity.ERROR if wrong else Severity.NOTE,
            cost=Cost(breaks=_breaks(how) if wrong else None),
            detail=DoubleSoftmaxDetail(how=how, loss=say("the loss")),
        )

    def _no_probabilities(self, patient: Patient, run: Run) -> Iterator[Finding]:
        """What `nll_loss` takes for log-probabilities, and what does not sum to one over the classes."""
        for record in of_run.numerics(run.lead.process, "unnormalised")[-1:]:
            how, count = max(record.get("made_by") or (("", 0),), key=lambda item: int(item[1]))
            of = int(record.get("losses") or 0)
            if count < self.limit("losses") or 2 * count < of or how not in _TAKEN:
                continue
            maker_of = {"dimension": "log_softmax", "softmax": "softmax"}.get(how)
            places = made_at(patient, maker_of)[:_PLACES] if maker_of else []
            places += of_run.loss_lines(patient)[:_PLACES]
            spans = list(dict.fromkeys(spots(patient, *places, of_run.place_of(record))))
            what, breaks = _TAKEN[how]
            yield confirmed(
                self,
                (),
                say(
                    "nll_loss takes log-probabilities of the classes, and in {count} of {of} losses it got {what}{at}.",
                    count=count,
                    of=of,
                    what=what,
                    at=of_run.at(spans),
                ),
                evidence=(*spans, run.measured("losses_without_probabilities", count, "{steps}")),
                severity=Severity.ERROR,
                cost=Cost(breaks=breaks),
                detail=DoubleSoftmaxDetail(how=how, loss="nll_loss"),
            )


def _breaks(kind: str) -> str:
    return say(
        "the loss sees {kind} of {kind} and cannot separate confident from unsure ones: training learns little",
        kind=kind,
    )


def made_at(patient: Patient, how: str) -> "list[of_run.LinePlace]":
    """Lines of the source that apply softmax, log-softmax or sigmoid outside of evaluations."""
    try:
        source = patient.source
    except Unavailable:
        return []
    return [
        of_run.LinePlace(path=script.path, line=call.span.line)
        for script in source.scripts
        for call in script.calls
        if not EVALUATES.search(call.function) and (maker(call) == how or call.name in _MAKERS[how])
    ]
