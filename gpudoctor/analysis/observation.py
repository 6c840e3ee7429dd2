"""What was seen of an ailment that takes a share of the time: in a recorded run, or in a watched process.

`analysis/run/cost_attribution.py` and `analysis/live/stack_shares.py` make it, so that a check judges both
alike.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from gpudoctor.model.check import Check
from gpudoctor.model.evidence import Evidence, Measurement, SourceSpan
from gpudoctor.model.finding import Confidence, Cost, Detail, Finding, Severity, Whose
from gpudoctor.model.signs.recording import Recording
from gpudoctor.model.unavailable import ReaderCrashed, Unavailable

Suspect = Callable[[], Iterable[Finding]]
"""Reads what the source suspects; it may raise `Unavailable`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recurrence:
    """How often something came that comes now and then."""

    times: int
    """How often it was seen."""
    words: str
    """As a clause: `: once in 20 steps, 3 s each`, `, every 25 s`."""
    measurement: Measurement
    """Seconds of each, or between two of them."""
    steps: float | None = None
    """Between two of them; None where steps were not counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """A share of the time, where it goes, and who saw it."""

    share: float
    """Of the time (0..1), as it is reported."""
    least: float
    """What the share is at least: with 90 % confidence where it was sampled; 0 for a chance few samples."""
    worth: float
    """What of it a cure can give back."""
    whose: Whose = Whose.HOST
    words: str
    """The share and what it is of: `12 % of the time`, `12 % of 200 stack samples`."""
    of_a_step: str = ""
    """The same in seconds, as a clause: `, 3 ms of a step of 20 ms`; "" where steps were not timed."""
    where: str
    """As a clause, with its blank: ` (train.py:41)`; "" where nobody knows."""
    spans: tuple[SourceSpan, ...]
    """The user's places, dearest first."""
    recording: Recording | None = None
    """The run; None for a watched process."""
    reproduce: str
    """The command that shows it again."""
    engine: str | None = None
    """The framework whose own loop the first place starts; None for the user's."""
    recurrence: Recurrence | None = None

    def reaches(self, limit: float) -> bool:
        """Whether the share is that large, and not by chance."""
        return self.share >= limit and self.least >= limit / 2

    def level(self, noted: float, warned: float) -> Severity | None:
        """Note or warning by two limits of the share; None below both."""
        if not self.reaches(noted):
            return None
        return Severity.WARNING if self.share >= warned else Severity.NOTE

    def finding(
        self,
        check: Check,
        message: str,
        *,
        name: str,
        severity: Severity,
        suspect: Suspect = tuple,
        detail: Detail | None = None,
        numbers: Iterable[Evidence] = (),
    ) -> Finding:
        """The check's finding, its share measured as `name`: the suspicion that it confirms, or a new one."""
        share = round(self.share, 6 if self.recording is not None else 4)
        measured = Measurement(name=name, value=share, unit="1", reproduce=self.reproduce)
        return stated(
            check,
            _suspicions(suspect),
            message,
            spans=self.spans,
            evidence=(*self.spans, measured, *numbers),
            severity=severity,
            cost=Cost(step_share=self.worth, whose=self.whose),
            subject=_subject(self.spans, whole=self.recording is not None),
            detail=detail,
        )


def stated(
    check: Check,
    suspected: Sequence[Finding],
    message: str,
    *,
    spans: Sequence[SourceSpan],
    evidence: Iterable[Evidence],
    severity: Severity,
    cost: Cost,
    subject: str,
    detail: Detail | None,
) -> Finding:
    """The suspicion that was confirmed at these places, grown; or a new finding."""
    base = best_match(suspected, spans)
    if base is not None:
        return grown(base, message, evidence=evidence, severity=severity, cost=cost, detail=detail)
    return check.finding(
        message,
        evidence=tuple(evidence),
        confidence=Confidence.CONFIRMED,
        severity=severity,
        cost=cost,
        subject=subject,
        detail=detail,
    )


def grown(
    finding: Finding,
    message: str,
    *,
    evidence: Iterable[Evidence],
    severity: Severity,
    cost: Cost,
    detail: Detail | None = None,
) -> Finding:
    """What the source suspected, now measured: its places stay, and its detail where the run has none."""
    known = {(item.path, item.line) for item in finding.evidence if isinstance(item, SourceSpan)}
    new = [item for item in evidence if not (isinstance(item, SourceSpan) and (item.path, item.line) in known)]
    return replace(
        finding,
        message=message,
        evidence=(*finding.evidence, *new),
        confidence=Confidence.CONFIRMED,
        severity=severity,
        cost=cost,
        detail=finding.detail if detail is None else detail.over(finding.detail),
    )


def best_match(suspected: Sequence[Finding], spans: Sequence[SourceSpan]) -> Finding | None:
    """The suspicion that names one of the places; else the only one."""
    places = {(span.path, span.line) for span in spans}
    for finding in suspected:
        if any(isinstance(item, SourceSpan) and (item.path, item.line) in places for item in finding.evidence):
            return finding
    return suspected[0] if len(suspected) == 1 else None


def _suspicions(suspect: Suspect) -> list[Finding]:
    try:
        return list(suspect())
    except (Unavailable, ReaderCrashed):
        return []  # no script could be read: what was seen speaks alone


def _subject(spans: Sequence[SourceSpan], *, whole: bool) -> str:
    """The first place: by its whole path, or by its file's name."""
    if not spans:
        return ""
    path = spans[0].path if whole else spans[0].path.rpartition("/")[2]
    return f"{path}:{spans[0].line}"
