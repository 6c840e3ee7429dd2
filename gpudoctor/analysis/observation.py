"""What was seen of an ailment that takes a share of the time: in a recorded run, or in a watched process.

`price` and `seen_in_run` make it of a run, `seen_live` of a watched process, and a check judges both alike.
`confirmed` makes the finding of what a run shows beside shares of the time.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from gpudoctor.lang.message import concatenated
from gpudoctor.model.check import Check
from gpudoctor.model.evidence import Evidence, Measurement, SourceSpan
from gpudoctor.model.finding import Confidence, Cost, Detail, Finding, Severity, Whose
from gpudoctor.model.records import frozen, replace
from gpudoctor.model.unavailable import ReaderCrashed, Unavailable

if TYPE_CHECKING:
    from gpudoctor.analysis.run.line_costs import Site
    from gpudoctor.model.signs.process import Place
    from gpudoctor.model.signs.recording import Recording


@frozen
class Recurrence:
    """How often something came that comes now and then."""

    times: int
    words: str
    """As a clause: `: once in 20 steps, 3 s each`, `, every 25 s`."""
    measurement: Measurement
    """Seconds of each, or between two of them."""
    steps: float | None = None
    """Between two of them; None where steps were not counted."""


@frozen
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
    recording: "Recording | None" = None
    """The run; None for a watched process."""
    reproduce: str
    engine: str | None = None
    """The framework whose own loop the first place starts; None for the user's."""
    recurrence: Recurrence | None = None
    places: "tuple[Place, ...]" = ()
    """What the stack samples show there, most first; empty for a run."""
    host: float = 0.0
    """The host's time in it (0..1), which may be more than the share: the device may work meanwhile."""
    sites: "tuple[Site, ...]" = ()
    """What hooks saw there, dearest first; empty for a watched process."""
    calls: float = 0.0
    """Calls a step."""
    seconds: float = 0.0
    """Seconds a call; 0 where none was counted."""

    @property
    def what(self) -> str:
        """What was called, the dearest first: `torch.save`; "" where hooks saw none."""
        return concatenated(" and ", dict.fromkeys(site.what for site in self.sites[:2]))

    def reaches(self, limit: float) -> bool:
        """Whether the share is that large, and not by chance."""
        return self.share >= limit and self.least >= limit / 2

    def level(self, check: Check, noted: str = "share_noted", warned: str = "share_warned") -> Severity | None:
        """Note or warning by two thresholds of the check; None below both, and if it may be chance."""
        return check.level(self.share, noted, warned) if self.reaches(check.limit(noted)) else None

    def also_at(self, spans: Iterable[SourceSpan]) -> "Observation":
        """The same with more places as evidence; `where` names the first ones still."""
        return replace(self, spans=tuple(dict.fromkeys((*self.spans, *spans))))

    def finding(
        self,
        check: Check,
        message: str,
        *,
        name: str,
        severity: Severity,
        suspected: Sequence[Finding] = (),
        detail: Detail | None = None,
        numbers: Iterable[Evidence] = (),
        priced: bool = True,
    ) -> Finding:
        """The check's finding, its share measured as `name`: the suspicion that it confirms, or a new one.

        Not `priced`: the share shows something else than what a cure gives back, and is left out.
        """
        share = round(self.share, 6 if self.recording is not None else 4)
        measured = Measurement(name, share, "1", reproduce=self.reproduce)
        first = self.spans[0] if self.spans and self.recording is None else None
        return confirmed(
            check,
            suspected,
            message,
            evidence=(*self.spans, *([measured] if priced else []), *numbers),
            severity=severity,
            cost=Cost(step_share=self.worth if priced else None, whose=self.whose),
            subject=f"{first.path.rpartition('/')[2]}:{first.line}" if first is not None else None,
            detail=detail,
        )


def suspicions(read: Callable[[], Iterable[Finding]], seen: object | None, *, refuted: bool = False) -> list[Finding]:
    """What the source suspects; nothing if it cannot be read and what was `seen` in a run can speak instead.

    `refuted`: a recording, which may be too short to be `seen`, shows that the ailment cannot be there.
    """
    if refuted:
        return []
    try:
        return list(read())
    except (Unavailable, ReaderCrashed):
        if seen is None:
            raise
        return []


def confirmed(
    check: Check,
    suspected: Sequence[Finding],
    message: str,
    *,
    evidence: Sequence[Evidence],
    severity: Severity,
    cost: Cost | None = None,
    subject: str | None = None,
    detail: Detail | None = None,
) -> Finding:
    """The finding of what was seen: the suspicion that it confirms, grown; or a new one."""
    spans = [item for item in evidence if isinstance(item, SourceSpan)]
    base = best_match(suspected, spans)
    if base is not None:
        return grown(base, message, evidence=evidence, severity=severity, cost=cost or Cost(), detail=detail)
    return check.finding(
        message,
        evidence=tuple(evidence),
        confidence=Confidence.CONFIRMED,
        severity=severity,
        cost=cost,
        subject=subject or (f"{spans[0].path}:{spans[0].line}" if spans else ""),
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
