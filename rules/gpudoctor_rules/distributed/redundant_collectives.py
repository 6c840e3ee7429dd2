"""Answers DIST004 redundant-collectives."""

import ast
from collections.abc import Iterator

from gpudoctor.model import (
    Applicability,
    Code,
    Edit,
    Effort,
    Finding,
    Patient,
    Remedy,
    Rule,
    SourceSpan,
    Unavailable,
)
from gpudoctor.model.reading.edits import delete_statement
from gpudoctor.model.reading.program import statement
from gpudoctor.model.reading.syntax import parents
from gpudoctor.model.signs.source import Call, Script

_EVERY = 50
"""Steps between two reductions for the log: the catalogue's number for logging."""

_STEPS = {
    "barrier": "Drop the barrier: the gradients' own reduction keeps the ranks together.",
    "broadcast": "Broadcast once before the loop, or derive the value from the step on every rank.",
    "objects": "Send tensors instead of pickled objects, and only every {every} steps.",
    "parameters": "Drop it: DDP starts from equal parameters and applies equal gradients.",
    "value": "Reduce every {every} steps, several values in one tensor: if step % {every} == 0: ...",
}


class RedundantCollectivesRule(Rule):
    """Meet less often."""

    answers = Code("DIST004")

    def prescribe(self, finding: Finding, patient: Patient) -> Iterator[Remedy]:
        kinds = str(finding.fact("kinds")).split(",")
        edits = tuple(_edits(finding, patient)) if kinds == ["barrier"] else ()
        yield Remedy(
            id="DIST004-fewer",
            title=f"Reduce for the log every {_EVERY} steps"
            if kinds == ["value"]
            else "No meeting of ranks on each step",
            steps=tuple(_STEPS[kind].format(every=_EVERY) for kind in kinds),
            applicability=Applicability.UNSAFE,
            effort=Effort.SMALL_EDIT,
            effect=None,  # the wait is a run's to measure
            edits=edits,
            references=("https://pytorch.org/docs/stable/notes/ddp.html#internal-design",),
        )


def _edits(finding: Finding, patient: Patient) -> Iterator[Edit]:
    """The barriers' statements removed, when every one of them stands alone."""
    spans = [item for item in finding.evidence if isinstance(item, SourceSpan)][:-1]
    found: list[Edit] = []
    for span in spans:
        place = _call_at(span, patient)
        if place is None:
            return
        script, call = place
        whole = statement(script, call.node)
        above = parents(script).get(whole) if whole is not None else None
        if not isinstance(whole, ast.Expr) or whole.value is not call.node or above is None:
            return
        block = next(
            (
                body
                for name in ("body", "orelse", "finalbody")
                for body in [getattr(above, name, [])]
                if whole in body
            ),
            None,
        )
        if block is None:
            return
        try:
            found.append(delete_statement(script, whole, block))
        except ValueError:
            return
    yield from found


def _call_at(span: SourceSpan, patient: Patient) -> tuple[Script, Call] | None:
    try:
        scripts = patient.source.scripts
    except Unavailable:
        return None
    return next(
        (
            (script, call)
            for script in scripts
            if script.path == span.path
            for call in script.calls
            if call.span == span
        ),
        None,
    )
