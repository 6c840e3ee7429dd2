"""TRAIN001: labels that are missing: of rows, of whole batches, of the end token."""

from collections.abc import Iterator

from gpudoctor.analysis.observation import confirmed
from gpudoctor.analysis.run.steady_run import measured
from gpudoctor.analysis.run.training import data
from gpudoctor.lang import say
from gpudoctor.model import Check, Code, Cost, Detail, Finding, Patient, Reads, Severity, Threshold
from gpudoctor.model.records import frozen, replace
from gpudoctor.model.unavailable import Unavailable


@frozen
class LabelsUntrainedDetail(Detail):
    """What the rule reads."""

    how: str
    """One of `cut`, `rows`, `end`, `pad`."""
    wide: int = 0
    """Tokens of the longest rows."""
    end: str = ""
    """The end token's number."""


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
        Masked language models leave short rows without a label by chance: rows count only beyond that. Texts
        that are trained without an end on purpose; padding alone is a note.
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
    thresholds = (
        Threshold(
            name="row_share",
            default=0.02,
            unit="1",
            source="convention: of a clean set a few broken rows are usual",
            meaning="Rows without a label below this share are not reported.",
        ),
        Threshold(
            name="rows",
            default=3,
            unit="1",
            source="convention: one or two rows are chance",
            meaning="Fewest rows without a label, or with an untrained end token.",
        ),
    )

    def examine(self, patient: Patient) -> Iterator[Finding]:
        found = {role: seen.with_labels() for role, seen in data.looks(patient.recording).items()}
        found = {role: seen for role, seen in found.items() if seen.records}
        if not found:
            raise Unavailable(say("no batch with a label for each token was seen"))
        for role, seen in found.items():
            yield from self._rows(patient, role, seen)
        if data.TRAINING in found:
            yield from self._end(patient, found[data.TRAINING])

    def _rows(self, patient: Patient, role: str, seen: data.Looks) -> Iterator[Finding]:
        rows, none = seen.total("rows"), seen.total("unlabelled")
        # Short rows of a masked language model have none by chance.
        chance = sum(float(item.get("chance") or 0.0) for item in seen.records) if seen.total("labels") else 0.0
        if none < max(self.limit("rows"), 2 * chance) or none < self.limit("row_share") * rows:
            return
        empty = data.unlabelled(seen)
        wide = max(int(item.get("width") or 0) for item in seen.records)
        full = 2 * seen.total("unlabelled_full") > none
        which = say("training rows") if role == data.TRAINING else say("evaluation rows")
        why = say(": most fill all {wide:,} tokens, so their answers were cut off", wide=wide) if full else ""
        message = (
            say(
                "{none:,} of {rows:,} {which} have no label{why}. At least {empty:,} batches have none at all: a "
                "loss of 0 / 0.",
                none=none,
                rows=rows,
                which=which,
                why=why,
                empty=empty,
            )
            if empty
            else say("{none:,} of {rows:,} {which} have no label{why}.", none=none, rows=rows, which=which, why=why)
        )
        yield confirmed(
            self,
            (),
            message,
            evidence=(
                *data.made_at(patient, role),
                measured("rows_without_label", none / rows, "1", patient.recording),
            ),
            severity=Severity.ERROR if empty else Severity.WARNING,
            cost=Cost(breaks=say("the loss of such batches is NaN") if empty else None),
            subject=role,
            detail=LabelsUntrainedDetail(how="cut" if full else "rows", wide=wide),
        )

    def _end(self, patient: Patient, seen: data.Looks) -> Iterator[Finding]:
        seen = replace(seen, records=tuple(item for item in seen.records if item.get("eos")))
        if not seen.records:
            return
        rows, open_, attended = seen.total("rows"), seen.total("unended"), seen.total("unended_seen")
        if open_ < max(self.limit("rows"), 0.5 * rows) or seen.total("trained_ends") or not data.labels_copied(seen):
            return
        last = seen.records[-1]
        end, pads = ", ".join(map(str, last.get("eos") or ())), last.get("pad") in (last.get("eos") or ())
        padded = say(", also the padding,") if pads else ""
        message = say(
            "The end token ({end}){padded} is in {ends:,} of {rows:,} rows and never among the {labels:,} labels. The "
            "model does not learn to stop.",
            end=end,
            padded=padded,
            ends=seen.total("ends"),
            rows=rows,
            labels=seen.total("labels"),
        )
        yield confirmed(
            self,
            (),
            message,
            evidence=(
                *data.made_at(patient),
                measured("rows_with_untrained_end", open_ / rows, "1", patient.recording),
            ),
            # Where no mask shows it, what follows the text may be padding alone.
            severity=Severity.WARNING if attended >= self.limit("rows") else Severity.NOTE,
            cost=Cost(breaks=say("generated text does not end by itself") if attended else None),
            subject="end",
            detail=LabelsUntrainedDetail(how="pad" if pads else "end", end=end),
        )
