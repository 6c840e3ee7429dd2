"""Answers LOOP007: hand out each batch once, after its copy."""

import ast
from collections.abc import Iterator

from gpudoctor.analysis.source.syntax_edits import insert_after, insert_before, replace_node
from gpudoctor.analysis.source.syntax_places import find_extent
from gpudoctor.lang import say, template
from gpudoctor.model import Applicability, Code, Edit, Effort, Finding, Patient, Remedy, Rule
from gpudoctor_checks.loop.prefetcher_broken import PrefetcherBrokenDetail

_RECORD = "https://docs.pytorch.org/docs/stable/generated/torch.Tensor.record_stream.html"
_STREAMS = "https://docs.pytorch.org/docs/stable/notes/cuda.html#cuda-streams"
_TITLES = {
    "nothing": say("return the batch"),
    "last": say("test the batch that is returned, not the next one"),
    "last_loop": say("return the last batch after the loop"),
    "first": say("keep the batch before the next one is loaded"),
    "wait": say("wait for the copy before the batch is used"),
    "record": say("call record_stream on each tensor that is returned"),
}
_STEPS = {
    "nothing": template("at the end of it: {text}"),
    "last": template("test {text} instead"),
    "last_loop": template("after the loop: {text}"),
    "first": template("batch = {text} before loading; return batch"),
    "wait": "{text}",
    "record": say("before the next load, for each tensor: tensor.record_stream(torch.cuda.current_stream())"),
}


class PrefetcherBrokenRule(Rule):
    """Mend the class, or do without it."""

    answers = Code("LOOP007")

    def prescribe(self, finding: Finding, patient: Patient) -> Iterator[Remedy]:
        detail = finding.detail_of(PrefetcherBrokenDetail)
        how, text = detail.how, detail.text
        yield Remedy(
            id=f"LOOP007-{how.replace('_', '-')}",
            title=_TITLES[how],
            steps=(say(_STEPS[how], text=text),),
            applicability=Applicability.UNSAFE,
            effort=Effort.ONE_LINE,
            edits=_edits(finding, patient, how, text),
            references=(_RECORD if how == "record" else _STREAMS,),
        )
        yield Remedy(
            id="LOOP007-loader",
            title="use pin_memory=True and non_blocking=True instead of the class",
            steps=(
                "DataLoader(..., num_workers=4, pin_memory=True, persistent_workers=True)",
                "for batch in loader: batch = batch.to(device, non_blocking=True)",
            ),
            applicability=Applicability.DISPLAY_ONLY,
            effort=Effort.SMALL_EDIT,
            references=(_STREAMS,),
        )


def _edits(finding: Finding, patient: Patient, how: str, text: str) -> tuple[Edit, ...]:
    detail = finding.detail_of(PrefetcherBrokenDetail)
    found = find_extent(patient.source, detail.edit_at)
    if found is None or not text:
        return ()
    script, node = found
    if how == "last":
        return (replace_node(script, node, text),)
    if not isinstance(node, ast.stmt):
        return ()
    if how in {"nothing", "last_loop"}:
        return (insert_after(script, node, text),)
    if how == "wait":
        return (insert_before(script, node, text),) if script.imports.get("torch") == "torch" else ()
    given = find_extent(patient.source, detail.return_at)
    if given is None:
        return ()
    return insert_before(script, node, f"batch = {text}"), replace_node(script, given[1], "batch")
