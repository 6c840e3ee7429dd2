"""What a run really trains: the card's lines, and what checks ask of them."""

from typing import TYPE_CHECKING

from gpudoctor.analysis.observation import confirmed
from gpudoctor.analysis.run.steady_run import measured, spots
from gpudoctor.model import Check, Cost, Detail, Finding, Patient, Severity
from gpudoctor.model.records import frozen
from gpudoctor.model.signs.recording import Record

if TYPE_CHECKING:
    from gpudoctor.analysis.run.line_costs import LinePlace


@frozen
class How(Detail):
    """Which of its check's kinds a finding is: what the rule reads."""

    how: str


def integer(record: Record, name: str) -> int:
    """A field that is a whole number; 0 where it is not there."""
    return int(record.get(name) or 0)


def told(
    check: Check,
    patient: Patient,
    how: str,
    message: str,
    value: float,
    *places: "LinePlace | None",
    severity: Severity | None = None,
    breaks: str = "",
) -> Finding:
    """The finding of what a run's training shows. What breaks the result is an error, the rest is a warning."""
    return confirmed(
        check,
        (),
        message,
        evidence=(*spots(patient, *places), measured(f"{check.judges}_{how}", value, "1", patient.recording)),
        severity=severity or (Severity.ERROR if breaks else Severity.WARNING),
        cost=Cost(breaks=breaks or None),
        subject=how,
        detail=How(how=how),
    )
