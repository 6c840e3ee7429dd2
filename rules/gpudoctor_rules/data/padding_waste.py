"""Answers DATA006 padding-waste."""

from collections.abc import Iterator

from gpudoctor.analysis.source.syntax_edits import settable
from gpudoctor.analysis.workload import scripts_given
from gpudoctor.model import Applicability, Code, Edit, Effort, Finding, KeywordEdit, Patient, Remedy, Rule
from gpudoctor.model.signs.source import Known, Source
from gpudoctor_checks.data.padding_waste import PaddingWasteDetail

_TRAINER = "transformers.Trainer"


class PaddingWasteRule(Rule):
    """Each batch to its longest sample; or packing."""

    answers = Code("DATA006")

    def prescribe(self, finding: Finding, patient: Patient) -> Iterator[Remedy]:
        edits = _edits(finding, scripts_given(patient))
        yield Remedy(
            id="DATA006-dynamic",
            title="pad each batch to its longest sample, not every sample to the maximum",
            steps=(
                "tokenizer(texts, truncation=True, max_length=...)   # no padding while tokenising",
                "collate_fn = transformers.DataCollatorWithPadding(tokenizer, pad_to_multiple_of=8)",
                "by hand: torch.nn.utils.rnn.pad_sequence(ids, batch_first=True) in the collate function",
            ),
            applicability=Applicability.UNSAFE if edits else Applicability.DISPLAY_ONLY,
            effort=Effort.ONE_LINE if edits else Effort.SMALL_EDIT,
            sets=(("padding", "longest"),),
            edits=edits,
            references=("https://huggingface.co/docs/transformers/pad_truncation",),
        )


def _edits(finding: Finding, source: Source) -> tuple[Edit, ...]:
    """`padding=True` where whole batches meet; no padding where a Trainer's own collator pads later."""
    detail = finding.detail_of(PaddingWasteDetail)
    span, how = finding.span, detail.how
    if span is None or not detail.single or detail.old:
        return ()
    if how in {"collator", "collate"}:
        new = "True"
    elif how == "tokenizer" and _collates(source, span.path):
        new = "False"
    else:
        return ()
    if not settable(source, span, "padding"):
        return ()
    return (KeywordEdit(path=span.path, line=span.line, column=span.column, set=(("padding", new),)),)


def _collates(source: Source, path: str) -> bool:
    """Whether a Trainer of the script has a tokenizer and no collator of its own: it pads each batch."""
    for script in source.scripts:
        if script.path != path:
            continue
        for call in script.calls:
            if call.name == _TRAINER and "data_collator" not in call.keywords and not call.open_ended:
                given = call.keywords.get("processing_class") or call.keywords.get("tokenizer")
                return given is not None and not (isinstance(given, Known) and given.value is None)
    return False
