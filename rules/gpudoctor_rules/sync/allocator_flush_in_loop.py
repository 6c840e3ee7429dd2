"""Answers SYNC002 allocator-flush-in-loop."""

from collections.abc import Iterator

from gpudoctor.analysis.source.syntax_edits import without
from gpudoctor.analysis.workload import scripts_given
from gpudoctor.lang import say
from gpudoctor.model import Applicability, Code, Effort, Finding, Patient, Remedy, Rule, TextEdit
from gpudoctor_checks.sync.allocator_flush_in_loop import AllocatorFlushInLoopDetail


class AllocatorFlushInLoopRule(Rule):
    """Take the call out; where it fought fragmentation, there is a setting for that."""

    answers = Code("SYNC002")

    def prescribe(self, finding: Finding, patient: Patient) -> Iterator[Remedy]:
        call = finding.detail_of(AllocatorFlushInLoopDetail).call
        edit = _deletion(finding, patient)
        yield Remedy(
            id="SYNC002-remove",
            title=say("Remove {call}() from the loop", call=call),
            steps=(
                say("Delete the call; once an epoch, after the evaluation, is often enough ({call}).", call=call),
                "Memory that is freed in Python goes back to the cache by itself and is reused.",
            ),
            applicability=Applicability.SAFE,
            effort=Effort.ONE_LINE,
            override=(("gc.collect" if call == "gc.collect" else "gc.empty_cache", "False"),),
            edits=() if edit is None else (edit,),
        )


def _deletion(finding: Finding, patient: Patient) -> TextEdit | None:
    """The edit that takes out the call, when it is a statement of its own."""
    span = finding.span
    scripts = scripts_given(patient).scripts
    script = next((item for item in scripts if span is not None and item.path == span.path), None)
    return without(script, span) if script is not None and span is not None else None
