"""The protocol of a check (one ailment, whatever reveals it), its thresholds, and how its examination ended."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import ClassVar, TypeAlias

from gpudoctor.lang import say, term
from gpudoctor.model.evidence import Evidence
from gpudoctor.model.finding import Code, Confidence, Cost, Detail, Finding, Resource, Severity, Trait
from gpudoctor.model.log_message import LibraryWarning, LogMessage
from gpudoctor.model.patient import Patient

# A threshold: a number with a source, overridable in `[tool.gpudoctor.thresholds]`.


OWN_CHOICE = say("convention: gpudoctor's own choice, no published figure is known")
"""The source of a number that has no other one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Threshold:
    """One number that a check compares with."""

    name: str
    """Snake-case name, unique within its check. Users write `CODE.name = value`."""
    default: float
    """The value in `unit` when nobody overrides it."""
    unit: str
    """The unit, as in `Measurement.unit`."""
    source: str
    """Where the number comes from: a document, an issue, a measurement."""
    meaning: str
    """One sentence: what happens above or below it."""

    @classmethod
    def note_and_warning(
        cls,
        meaning: str,
        *,
        noted: float,
        warned: float,
        source: str = OWN_CHOICE,
        source_warned: str = "",
        name: str = "share",
    ) -> "tuple[Threshold, Threshold]":
        """The thresholds `share_noted` and `share_warned`, of which a share of the time is a note or a warning.

        `meaning` is the sentence without its end: `Saves that take this share of a recorded run are`.
        """
        return (
            cls(
                name=f"{name}_noted",
                default=noted,
                unit="1",
                source=source,
                meaning=say("{meaning} a note.", meaning=term(meaning)),
            ),
            cls(
                name=f"{name}_warned",
                default=warned,
                unit="1",
                source=source_warned or source,
                meaning=say("{meaning} a warning.", meaning=term(meaning)),
            ),
        )


# The track record of a check on code that nobody here wrote, and what follows from it for a mere suspicion.

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
    counted = say(
        "{right} of {judged} warnings from source alone were right on public code",
        right=record.right,
        judged=record.judged,
    )
    return (
        say("{counted}; it is a note until a run has measured it", counted=counted)
        if costs_time and record.poor
        else counted
    )


def weighed(severity: Severity, confidence: Confidence, record: TrackRecord | None) -> Severity:
    """The severity of a cost in view of the track record: a suspected one of an often wrong check is a note."""
    often_wrong = record is not None and record.poor
    if often_wrong and severity is Severity.WARNING and confidence is Confidence.SUSPECTED:
        return Severity.NOTE
    return severity


class Reads(Enum):
    """The kinds of sign that reveal an ailment; the letters are the catalogue's."""

    ENVIRONMENT = "environment"
    SOURCE = "source"
    CONFIG = "config"
    RECORDING = "recording"
    PROCESS = "process"
    LOG = "log"
    PREFLIGHT = "preflight"


class Maturity(Enum):
    """The life of a check."""

    PREVIEW = "preview"
    STABLE = "stable"
    DEPRECATED = "deprecated"


class Check(ABC):
    """A pure reader of a patient. The class docstring is its manual page (see checks/README.md).

    `examine` may raise `Unavailable`: the check is then skipped with that reason. It never prints, writes,
    fixes, imports a framework or names another check.
    """

    code: ClassVar[Code]
    """Topic and number."""
    name: ClassVar[str]
    """The ailment in kebab case; the module's name with dashes."""
    reads: ClassVar[frozenset[Reads]]
    """What reveals it. Best evidence first is the check's own business."""
    severity: ClassVar[Severity] = Severity.WARNING
    """The severity when `finding` is not told otherwise."""
    maturity: ClassVar[Maturity] = Maturity.STABLE
    """Its life."""
    log_messages: ClassVar[tuple[LogMessage, ...]] = ()
    """What a log says of the ailment; the engine makes the finding where one of them is the first cause."""
    library_warnings: ClassVar[tuple[LibraryWarning, ...]] = ()
    """What libraries themselves say of the ailment while the training goes on; the engine makes the finding."""
    log_knobs: ClassVar[tuple[str, ...]] = ()
    """Settings that bear on it: keys of configs and keyword arguments, shown where they stand beside a log."""
    thresholds: ClassVar[tuple[Threshold, ...]] = ()
    """Every number it compares with."""
    track_record: ClassVar[TrackRecord | None] = None
    """How often its warnings from source alone were right on public code; None when none was judged."""
    costs_time: ClassVar[bool] = False
    """Whether its warnings are of lost time, which a run measures: a suspicion may wait for the run."""
    traits: ClassVar[frozenset[Trait]] = frozenset()
    """What its findings mean to verdicts and trials beyond their topic."""
    silent_on_synthetic: ClassVar[str | None] = None
    """Why it says nothing of a job with random weights and random data; None where it says something."""
    no_rule: ClassVar[str | None] = None
    """Why no rule answers it, when none does."""

    def __init__(self, overrides: Mapping[str, float] | None = None) -> None:
        self._limits = {item.name: item.default for item in self.thresholds} | dict(overrides or {})

    @abstractmethod
    def examine(self, patient: Patient) -> Iterator[Finding]:
        """Yield a finding for each place where the patient has the ailment."""

    def log_kind(self, kind: str, values: Mapping[str, str]) -> str:  # noqa: ARG002  # a check may tell more
        """The wording that a message's values show, where they tell more than its text; else the same one."""
        return kind

    def beside_log(self, finding: Finding, patient: Patient) -> Finding | None:  # noqa: ARG002
        """The finding of a log, with what else was left behind: a snapshot, stack dumps, a kernel log.

        None where another finding of this check says the same better.
        """
        return finding

    def limit(self, name: str) -> float:
        """The threshold in force: the default, or the user's override."""
        return self._limits[name]

    def level(self, value: float, noted: str = "share_noted", warned: str = "share_warned") -> Severity | None:
        """Note or warning by two thresholds; None below both."""
        if value >= self.limit(warned):
            return Severity.WARNING
        return Severity.NOTE if value >= self.limit(noted) else None

    def finding(
        self,
        message: str,
        *,
        evidence: tuple[Evidence, ...],
        confidence: Confidence,
        severity: Severity | None = None,
        cost: Cost | None = None,
        subject: str = "",
        scarce: frozenset[Resource] = frozenset(),
        effect_of: Code | None = None,
        detail: Detail | None = None,
    ) -> Finding:
        """A finding that carries this check's code, name and default severity.

        A suspected loss of time is a note when the check's track record is poor: nobody has measured it.
        """
        return Finding(
            code=self.code,
            name=self.name,
            severity=self._weighed(severity or self.severity, confidence),
            confidence=confidence,
            message=message,
            evidence=evidence,
            cost=cost or Cost(),
            subject=subject,
            scarce=scarce,
            effect_of=effect_of,
            detail=detail,
            traits=self.traits,
        )

    def _weighed(self, severity: Severity, confidence: Confidence) -> Severity:
        return weighed(severity, confidence, self.track_record) if self.costs_time else severity


# How the examination of one check ended: four ways, always shown.


@dataclass(frozen=True, slots=True, kw_only=True)
class Passed:
    """The check looked and found nothing that is not silenced."""

    code: Code
    silenced: int = 0
    """Findings that the user silenced."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The check found the ailment, once or more often."""

    code: Code
    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """The check could not look: a sign is missing, or the user deselected it."""

    code: Code
    reason: str
    deselected: bool = False
    """True when it was not selected; such a skip is no gap in the examination."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Crashed:
    """The check or a reader failed; a result like the others, and the rest goes on."""

    code: Code
    error: str


Outcome: TypeAlias = Passed | Found | Skipped | Crashed
