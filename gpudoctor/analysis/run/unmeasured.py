"""What the source suspects and a run has not measured, because it made no step."""

from collections.abc import Iterable
from dataclasses import replace

from gpudoctor.analysis.run.steady_run import run_of
from gpudoctor.model.finding import Confidence, Finding, Severity
from gpudoctor.model.signs.recording import Recording


def without_steps(recording: Recording) -> bool:
    """Whether a recorded program was seen, and came to no training step."""
    return recording.origin == "gpudoctor" and bool(recording.ranks) and run_of(recording) is None


def is_suspicion(finding: Finding) -> bool:
    """Whether only the text of a program says so."""
    return finding.confidence is Confidence.SUSPECTED and finding.span is not None


def with_notes(recording: Recording, findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Findings, of a run without a step with the suspicions of lost time as notes.

    What says that a result is wrong keeps its severity: no measurement is needed for it.
    """
    if not without_steps(recording):
        return tuple(findings)
    return tuple(
        replace(one, severity=Severity.NOTE) if is_suspicion(one) and one.cost.breaks is None else one
        for one in findings
    )
