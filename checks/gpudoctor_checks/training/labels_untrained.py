"""TRAIN001: labels that are missing: of rows, of whole batches, of the end token."""

from collections.abc import Iterator
from itertools import islice

from gpudoctor.analysis.run.training import data
from gpudoctor.lang import say
from gpudoctor.model import Check, Code, Finding, Patient, Reads, Severity, Threshold
from gpudoctor.model.unavailable import Unavailable

_ROWS = 3
"""Rows that are chance below."""


class LabelsUntrained(Check):
    """Rows have no label to learn from, or the end token is never among the labels.

    What it finds:
        In a recording, of training and evaluation:
        - batches without any label, whose loss is 0 / 0 = NaN
        - rows without a label, for example those whose answer was cut off
        - an end token that the inputs have and no label has, because padding is the same token
    Why it hurts:
        Rows without a label cost time and teach nothing; a batch without one makes the mean NaN. A model that
        never learns the end token writes until its length limit.
    How it knows:
        From a recording: the labels of the loader's batches on the host. A label below 0 is not trained.
    False alarms:
        Masked language models leave short rows without a label by chance: they are not judged. Texts that are
        trained without an end on purpose.
    Remedies:
        Cut the prompt and not the answer, or drop the row. Give the tokenizer a padding token of its own.
    References:
        - https://github.com/huggingface/trl/issues/1053
        - https://huggingface.co/docs/transformers/main_classes/data_collator
    """

    code = Code("TRAIN001")
    name = "labels-untrained"
    reads = frozenset({Reads.RECORDING})
    severity = Severity.WARNING
    judges = "labels"
    thresholds = (
        Threshold(
            name="row_share",
            default=0.02,
            unit="1",
            source="convention: of a clean set a few broken rows are usual",
            meaning="Rows without a label below this share are not reported.",
        ),
    )

    def examine(self, patient: Patient) -> Iterator[Finding]:
        seen = data.looks(patient.recording)
        found = {role: labelled for role in seen if (labelled := seen[role].holding("labels")) is not None}
        if not found:
            raise Unavailable(say("no batch with a label for each token was seen"))
        yield from islice((one for role, its in found.items() for one in self._rows(patient, role, its)), 1)
        ended = found[data.TRAINING].holding("eos") if data.TRAINING in found else None
        if ended is not None:
            yield from self._end(patient, ended)

    def _rows(self, patient: Patient, role: str, seen: data.Looks) -> Iterator[Finding]:
        rows, none = seen.total("rows"), seen.total("unlabelled")
        # Short rows of a masked language model have none by chance: its labels are not the tokens that it sees.
        chance = seen.total("labels") and not data.labels_copied(seen)
        if chance or none < max(_ROWS, self.limit("row_share") * rows):
            return
        empty = data.unlabelled(seen)
        full = seen.total("unlabelled_full") > none / 2
        message = say(
            "{none:,} of {rows:,} {which} have no label{why}{nan}.",
            none=none,
            rows=rows,
            which=say("training rows") if role == data.TRAINING else say("evaluation rows"),
            why=say(": most fill the whole width, so their answers were cut off") if full else "",
            nan=say("; {empty:,} batches have none at all: a loss of 0 / 0", empty=empty) if empty else "",
        )
        breaks = say("the loss of such batches is NaN") if empty else ""
        yield data.shown(self, patient, "cut" if full else "rows", message, none / rows, role, breaks)

    def _end(self, patient: Patient, seen: data.Looks) -> Iterator[Finding]:
        rows = seen.total("rows")
        untrained = seen.total("unended")
        ends = seen.records[-1].get("eos")
        if untrained < max(_ROWS, 0.5 * rows) or seen.total("trained_ends") or not data.labels_copied(seen):
            return
        pads = seen.records[-1].get("pad") in ends
        message = say(
            "The end token ({end}){padded} ends {rows:,} rows and is never a label. The model does not learn to stop.",
            end=", ".join(map(str, ends)),
            padded=say(", also the padding,") if pads else "",
            rows=untrained,
        )
        breaks = say("generated text does not end by itself")
        how, share = "pad" if pads else "end", untrained / rows
        yield data.shown(self, patient, how, message, share, breaks=breaks, severity=Severity.WARNING)
