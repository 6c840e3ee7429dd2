"""TRAIN002: labels at the wrong place: shifted twice, not at all, on padding, on prompts."""

from collections.abc import Iterator

from gpudoctor.analysis.run.training import data
from gpudoctor.lang import say
from gpudoctor.model import Check, Code, Finding, Patient, Reads, Severity
from gpudoctor.model.signs.recording import Record
from gpudoctor.model.unavailable import Unavailable
from gpudoctor.text import percent

_LABELS, _ROWS, _SHARE = 64, 3, 0.05
"""Labels and rows that are chance below, share of them."""
_MATCH, _OTHER = 0.98, 0.9
"""From this share of labels that fit on, that is the shift, if no other one fits so well."""


class LabelsMisplaced(Check):
    """The loss compares a token's prediction with the wrong label.

    What it finds:
        In a recording of a model that is given tokens:
        - labels that are shifted twice: each is the token after the next one
        - labels that are not shifted: each is the token that the model sees at that place
        - padding that is trained
        - as a note, rows that are trained from their first token by code that names a prompt or an answer
        - prompts that are trained in rows with padding at the left, and masked in the others
    Why it hurts:
        Nothing raises, and the loss falls. The model learns to skip a token, to copy its input, or to write
        padding and prompts.
    How it knows:
        From a recording: the targets that the loss keeps for its backward pass, beside the tokens of the call.
        Nothing is concluded from the name of a model.
    False alarms:
        An autoencoder of text copies its tokens on purpose. Heads that predict further tokens have a loss
        each: several losses over tokens are not judged.
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
    judges = "labels"

    def examine(self, patient: Patient) -> Iterator[Finding]:
        targets = data.calls(patient.recording)["targets"]
        seen = data.looks(patient.recording).get(data.TRAINING)
        labelled = seen.holding("labels") if seen is not None else None
        if not targets and labelled is None:
            raise Unavailable(say("no loss over tokens was seen in the recording"))
        if targets:
            yield from self._shifted(patient, targets[-1])
        if labelled is not None and data.labels_copied(labelled):
            yield from self._prompts(patient, labelled)

    def _shifted(self, patient: Patient, last: Record) -> Iterator[Finding]:
        hits, of = list(last.get("hits")), list(last.get("counted"))
        shares = [hit / count if count else 0.0 for hit, count in zip(hits, of, strict=True)]
        best = max(range(len(shares)), key=shares.__getitem__)
        if of[0] >= _LABELS and shares[best] >= _MATCH and sorted(shares)[-2] < _OTHER:
            part = percent(shares[best])
            if best > 1:
                breaks = say("the model learns another text than it is given")
                message = say("{part} of the labels are the token after the next: they are shifted twice.", part=part)
                yield data.shown(self, patient, "twice", message, shares[best], breaks=breaks)
            elif not best and not last.get("several"):
                message = say("{part} of the labels are the token at their place: the model learns to copy.", part=part)
                yield data.shown(self, patient, "copy", message, shares[0])
        labels, pads = int(last.get("labels") or 0), int(last.get("pads") or 0)
        # Classes of tokens may have the padding's number, and are no tokens.
        if labels and pads >= _SHARE * labels and shares[best] >= _OTHER:
            share = pads / labels
            message = say("{share} of {of:,} labels that the loss counts are padding.", share=percent(share), of=labels)
            yield data.shown(self, patient, "padding", message, share)

    def _prompts(self, patient: Patient, seen: data.Looks) -> Iterator[Finding]:
        """A mask of the prompt that counts from the left, where rows are padded at the left."""
        left = seen.total("left")
        opened = seen.total("opened")
        rows = seen.total("rows")
        meant = any(item.get("masks") for item in seen.records)
        # Whoever trains whole texts writes such names as well, and -100 at the padding.
        if meant and opened == rows >= _ROWS:
            message = say(
                "All of {rows:,} rows are trained from their first token. The code that makes the labels names a "
                "prompt or an answer.",
                rows=rows,
            )
            yield data.shown(self, patient, "unmasked", message, 1.0, severity=Severity.NOTE)
        right = rows - left
        few = opened < max(_ROWS, _SHARE * left) or right < _ROWS
        if not few and opened == seen.total("opened_left"):
            message = say(
                "{rows:,} rows padded at the left train their prompt: its mask lies on the padding.", rows=opened
            )
            yield data.shown(self, patient, "prompt", message, opened / left)
