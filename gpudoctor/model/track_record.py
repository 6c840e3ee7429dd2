"""The track record of a check on code that nobody here wrote, and what follows from it for a mere suspicion."""

from dataclasses import dataclass

from gpudoctor.model.severity import Confidence, Severity

_ENOUGH = 5
"""Judged warnings from which a share says something: with four, one wrong one decides."""
_LEAST = 0.75
"""Share of right ones that a warning needs. Above 30 % wrong, people begin to ignore a tool; below 20 %
was the aim of Bessey et al., "A Few Billion Lines of Code Later", CACM 53(2), 2010. This is the middle."""


@dataclass(frozen=True, slots=True)
class TrackRecord:
    """How often a check's warnings from source alone were right on public code (docs/eyes-on.md).

    Debatable ones are in neither number.
    """

    right: int
    """Warnings that people who did not know the check called right."""
    wrong: int
    """Warnings that they called wrong."""

    @property
    def judged(self) -> int:
        """Warnings that were judged right or wrong."""
        return self.right + self.wrong

    @property
    def poor(self) -> bool:
        """Whether too many were wrong for a warning that only the source shows."""
        return self.judged >= _ENOUGH and self.right < _LEAST * self.judged


def track_record_text(record: TrackRecord, costs_time: bool) -> str:
    """The track record as a manual page says it; `costs_time` as in `Check`."""
    counted = f"{record.right} of {record.judged} warnings from source alone were right on public code"
    return f"{counted}; it is a note until a run has measured it" if costs_time and record.poor else counted


def weighed(severity: Severity, confidence: Confidence, record: TrackRecord | None) -> Severity:
    """The severity of a cost in view of the track record: a suspected one of an often wrong check is a note."""
    often_wrong = record is not None and record.poor
    if often_wrong and severity is Severity.WARNING and confidence is Confidence.SUSPECTED:
        return Severity.NOTE
    return severity
