"""Answers SYNC003 explicit-synchronize."""

from collections.abc import Iterator

from gpudoctor.analysis.source.syntax_edits import without
from gpudoctor.analysis.workload import scripts_given
from gpudoctor.lang import say
from gpudoctor.model import Applicability, Code, Edit, Effort, Finding, Patient, Remedy, Rule, SourceSpan
from gpudoctor.model.signs.source import Source
from gpudoctor_checks.sync.explicit_synchronize import ExplicitSynchronizeDetail


class ExplicitSynchronizeRule(Rule):
    """Take the call out; time steps with events."""

    answers = Code("SYNC003")

    def prescribe(self, finding: Finding, patient: Patient) -> Iterator[Remedy]:
        detail = finding.detail_of(ExplicitSynchronizeDetail)
        places = [item for item in finding.evidence if isinstance(item, SourceSpan)]
        found = [_deletion(scripts_given(patient), place) for place in places]
        edits = tuple(edit for edit in found if edit is not None)
        whole = bool(edits) and len(edits) == len(places)
        timed = bool(detail.timed)
        steps = [say("Delete {call}(): the next read of a tensor waits for what it needs.", call=detail.call)]
        if timed:
            steps += [
                say("To time steps: start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2));"),
                say("start.record(); ...the step...; end.record(), and start.elapsed_time(end) some steps later."),
            ]
        yield Remedy(
            id="SYNC003-remove",
            title="remove synchronize from the loop; time with CUDA events"
            if timed
            else "remove synchronize from the loop",
            steps=tuple(steps),
            # Streams and copies that do not block may need the wait; a clock beside it would time launches.
            applicability=Applicability.UNSAFE if whole else Applicability.DISPLAY_ONLY,
            effort=Effort.SMALL_EDIT if timed else Effort.ONE_LINE,
            override=(("gc.synchronize", "False"),),
            edits=edits if whole else (),
            references=("https://pytorch.org/docs/stable/generated/torch.cuda.Event.html",),
        )


def _deletion(source: Source, place: SourceSpan) -> Edit | None:
    script = next((item for item in source.scripts if item.path == place.path), None)
    return without(script, place) if script is not None else None
