"""A run that made no step: what the source suspects of it was not measured, and is a note."""

from collections.abc import Iterable
from dataclasses import replace

from gpudoctor.analysis.run.steady_run import recorded, run_of
from gpudoctor.model.evidence import Evidence
from gpudoctor.model.finding import Confidence, Finding, Severity
from gpudoctor.model.patient import Patient
from gpudoctor.model.signs.recording import Recording
from gpudoctor.text import count

_SHOWN = 8
"""Places of one ailment that are named."""


def without_steps(recording: Recording) -> bool:
    """Whether a recorded program was seen, and came to no training step."""
    return recording.origin == "gpudoctor" and bool(recording.ranks) and run_of(recording) is None


def unmeasured(patient: Patient) -> bool:
    """The same of a patient; False where nothing was run."""
    recording = recorded(patient)
    return recording is not None and without_steps(recording)


def is_suspicion(finding: Finding) -> bool:
    """Whether only the text of a program says so."""
    return finding.confidence is Confidence.SUSPECTED and finding.span is not None


def as_notes(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Findings of a run without a step: suspicions of lost time are notes, one for each ailment.

    What says that a result is wrong keeps its severity: no measurement is needed for it.
    """
    kept: dict[str | int, list[Finding]] = {}
    for place, finding in enumerate(findings):
        if is_suspicion(finding) and finding.cost.breaks is None:
            kept.setdefault(finding.code, []).append(replace(finding, severity=Severity.NOTE))
        else:
            kept[place] = [finding]
    return tuple(_folded(same) for same in kept.values())


def _folded(same: list[Finding]) -> Finding:
    """One finding for all places of an ailment: the first speaks, the others are its evidence."""
    first = same[0]
    if len(same) == 1:
        return first
    evidence: list[Evidence] = list(first.evidence)
    evidence += [other.span for other in same[1:] if other.span is not None and other.span not in evidence]
    more = count(len(same) - 1, "more place")
    return replace(
        first,
        message=f"{first.message} The same is suspected at {more}.",
        evidence=tuple(evidence[: max(_SHOWN, len(first.evidence))]),
    )
