"""Answers DIST004 redundant-collectives."""

from collections.abc import Iterator

from gpudoctor.analysis.source.syntax_edits import without
from gpudoctor.analysis.workload import scripts_given
from gpudoctor.lang import say, template
from gpudoctor.model import Applicability, Code, Edit, Effort, Finding, Patient, Remedy, Rule, SourceSpan
from gpudoctor_checks.distributed.redundant_collectives import RedundantCollectivesDetail

_EVERY = 50
"""Steps between two reductions for the log: the catalogue's number for logging."""

_STEPS = {
    "barrier": say("Drop the barrier: the gradients' own reduction keeps the ranks together."),
    "broadcast": say("Broadcast once before the loop, or derive the value from the step on every rank."),
    "objects": template("Send tensors instead of pickled objects, and only every {every} steps."),
    "parameters": say("Drop it: DDP starts from equal parameters and applies equal gradients."),
    "value": template("Reduce every {every} steps, several values in one tensor: if step % {every} == 0: ..."),
}


class RedundantCollectivesRule(Rule):
    """Meet less often."""

    answers = Code("DIST004")

    def prescribe(self, finding: Finding, patient: Patient) -> Iterator[Remedy]:
        kinds = finding.detail_of(RedundantCollectivesDetail).kinds.split(",")
        edits = tuple(_edits(finding, patient)) if kinds == ["barrier"] else ()
        yield Remedy(
            id="DIST004-fewer",
            title=say("Reduce for the log every {every} steps", every=_EVERY)
            if kinds == ["value"]
            else "avoid per-step synchronisation between ranks",
            steps=tuple(say(_STEPS[kind], every=_EVERY) for kind in kinds),
            applicability=Applicability.UNSAFE,
            effort=Effort.SMALL_EDIT,
            override=(_override(set(kinds)),),
            effect=None,  # the wait is a run's to measure
            edits=edits,
            references=("https://pytorch.org/docs/stable/notes/ddp.html#internal-design",),
        )


def _override(kinds: set[str]) -> tuple[str, str]:
    """What a trial does at the places: without the meeting, or seldom where something is received."""
    safe = kinds <= {"barrier", "value"}
    period = 0 if kinds <= {"barrier", "parameters"} else _EVERY
    return f"collectives.for_{'log' if safe else 'data'}", str(period)


def _edits(finding: Finding, patient: Patient) -> Iterator[Edit]:
    """The barriers' statements removed, when every one of them stands alone."""
    spans = [item for item in finding.evidence if isinstance(item, SourceSpan)][:-1]
    scripts = {script.path: script for script in scripts_given(patient).scripts}
    found = [without(scripts[span.path], span) if span.path in scripts else None for span in spans]
    if None not in found:
        yield from (edit for edit in found if edit is not None)
