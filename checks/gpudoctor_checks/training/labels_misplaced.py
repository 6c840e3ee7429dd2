"""TRAIN002: labels at the wrong place: shifted twice, not at all, on padding, on what a mask leaves out."""

from collections.abc import Iterator

from gpudoctor.analysis.observation import confirmed
from gpudoctor.analysis.run.steady_run import measured
from gpudoctor.analysis.run.training import data
from gpudoctor.lang import say
from gpudoctor.model import Check, Code, Cost, Detail, Finding, Patient, Reads, Severity, Threshold
from gpudoctor.model.records import frozen
from gpudoctor.model.unavailable import Unavailable
from gpudoctor.text import percent

_LOST = 0.1
"""Share of the tokens whose labels a shift may lose."""


@frozen
class LabelsMisplacedDetail(Detail):
    """What the rule reads."""

    how: str
    """One of `twice`, `copy`, `padding`, `mask`."""


class LabelsMisplaced(Check):
    """The loss compares a token's prediction with the wrong label.

    What it finds:
        In a recording of a model that is given tokens:
        - labels that are shifted twice: each is the token after the next one
        - labels that are not shifted: each is the token that the model sees at that place
        - padding that is trained
        - labels where a mask of the batch, like `completion_mask`, says not to train
    Why it hurts:
        Nothing raises, and the loss falls. The model learns to skip a token, to copy its input, or to write
        padding and prompts.
    How it knows:
        From a recording: the targets that the loss keeps for its backward pass, beside the tokens of the call.
        Nothing is concluded from the name of a model.
    False alarms:
        An autoencoder of text copies its tokens on purpose. Heads that predict further tokens have a loss
        each: one that predicts the next token is enough.
    Remedies:
        Shift the labels once: in the collate function or in the model. Set labels of padding to -100.
    References:
        - https://github.com/huggingface/transformers/issues/32944
        - https://huggingface.co/docs/transformers/tasks/language_modeling
    """

    code = Code("TRAIN002")
    name = "labels-misplaced"
    reads = frozenset({Reads.RECORDING})
    severity = Severity.ERROR
    thresholds = (
        Threshold(
            name="labels",
            default=64,
            unit="1",
            source="convention: repeated tokens match by chance in short rows",
            meaning="Fewer labels of losses are not judged.",
        ),
        Threshold(
            name="match",
            default=0.98,
            unit="1",
            source="all but the places of corrupted tokens",
            meaning="If at least this share of labels is the token so many places on, that is the shift.",
        ),
        Threshold(
            name="share",
            default=0.05,
            unit="1",
            source="convention",
            meaning="Less padding among the labels, or labels against a mask, is not reported.",
        ),
    )

    def examine(self, patient: Patient) -> Iterator[Finding]:
        targets = [item for item in data.calls(patient.recording)["targets"] if len(item.get("hits") or ()) == 3]
        if not targets:
            raise Unavailable(say("no loss over tokens was seen in the recording"))
        last = targets[-1]
        hits, of = list(last.get("hits")), list(last.get("counted"))
        here, next_, after = (hit / count if count else 0.0 for hit, count in zip(hits, of, strict=False))
        match, other = self.limit("match"), 0.9
        if of[0] >= self.limit("labels") and after >= match and max(here, next_) < other:
            message = say(
                "{hits:,} of {of:,} labels are the token after the next one: the labels are shifted twice.",
                hits=hits[2],
                of=of[2],
            )
            yield self._found(patient, "twice", message, after, Severity.ERROR)
        elif of[0] >= self.limit("labels") and here >= match and max(next_, after) < other and not last.get("several"):
            message = say(
                "{hits:,} of {of:,} labels are the very token that the model sees there: it learns to copy its input.",
                hits=hits[0],
                of=of[0],
            )
            yield self._found(patient, "copy", message, here, Severity.WARNING)
        labels, pads = int(last.get("labels") or 0), int(last.get("pads") or 0)
        # Classes of tokens may have the padding's number, and are no tokens.
        if labels and pads >= self.limit("share") * labels and max(here, next_, after) >= other:
            message = say(
                "{share} of the labels that the loss counts are padding ({pads:,} of {labels:,}).",
                share=percent(pads / labels),
                pads=pads,
                labels=labels,
            )
            yield self._found(patient, "padding", message, pads / labels, Severity.WARNING)
        yield from self._against(patient, labels / max(1, int(last.get("tokens") or 0)))

    def _against(self, patient: Patient, counted: float) -> Iterator[Finding]:
        """Labels where a mask of the batch says not to train, if the loss counts all labels of the batch."""
        seen = data.looks(patient.recording).get(data.TRAINING)
        labels = seen.total("labels") if seen is not None else 0
        if seen is None or not labels or seen.total("against") < self.limit("share") * labels:
            return
        if abs(labels / max(1, seen.total("tokens")) - counted) > _LOST:
            return
        share = seen.total("against") / labels
        message = say("A mask of the batch says not to train {share} of the labels.", share=percent(share))
        yield self._found(patient, "mask", message, share, Severity.WARNING)

    def _found(self, patient: Patient, how: str, message: str, share: float, severity: Severity) -> Finding:
        return confirmed(
            self,
            (),
            message,
            evidence=(*data.made_at(patient), measured(f"labels_{how}", share, "1", patient.recording)),
            severity=severity,
            cost=Cost(breaks=say("the model learns another text than it is given") if how == "twice" else None),
            subject=how,
            detail=LabelsMisplacedDetail(how=how),
        )
