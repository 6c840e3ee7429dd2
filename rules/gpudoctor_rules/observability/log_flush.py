"""Answers OBS007: let the buffer work."""

from collections.abc import Iterator

from gpudoctor.model import (
    Applicability,
    Code,
    Edit,
    Effort,
    Finding,
    KeywordEdit,
    Patient,
    Remedy,
    Rule,
    SourceSpan,
)
from gpudoctor.model.reading.cadence import settable, without
from gpudoctor.model.workload import scripts_given

_STEPS = {
    "sync": "Delete the fsync: the operating system writes the file within seconds, and at close.",
    "flush": "Delete the flush: the buffer is written when it is full and when the file is closed.",
    "print": "print(...) without flush=True; `python -u` or PYTHONUNBUFFERED=1 where lines must show at once.",
    "open": 'log = open(path, "a", buffering=1 << 16)   # once, before the loop; log.write(...) in it',
}


class LogFlushRule(Rule):
    """No flush in the step; one open file."""

    answers = Code("OBS007")

    def prescribe(self, finding: Finding, patient: Patient) -> Iterator[Remedy]:
        places = [item for item in finding.evidence if isinstance(item, SourceSpan)]
        found = [_edit(patient, place) for place in places]
        edits = tuple(edit for edit in found if edit is not None)
        whole = len(edits) == finding.fact("calls")
        kind = str(finding.fact("kind"))
        yield Remedy(
            id="OBS007-buffer",
            title="open the log once, before the loop" if kind == "open" else "no flush in the step",
            steps=(_STEPS[kind], "log.flush() once an epoch, or every few hundred steps, where it must be."),
            applicability=Applicability.SAFE if whole else Applicability.DISPLAY_ONLY,
            effort=Effort.SMALL_EDIT if kind == "open" else Effort.ONE_LINE,
            override=(("every", "50"),) if kind in {"sync", "flush"} else (),
            edits=edits if whole else (),
        )


def _edit(patient: Patient, place: SourceSpan) -> Edit | None:
    script = next((item for item in scripts_given(patient).scripts if item.path == place.path), None)
    if script is None:
        return None
    if settable(scripts_given(patient), place, method="print", remove=("flush",)):
        return KeywordEdit(path=place.path, line=place.line, column=place.column, remove=("flush",))
    return without(script, place)
