"""The protocol of a check: one ailment, whatever reveals it."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from enum import Enum
from typing import ClassVar

from gpudoctor.model.detail import Detail
from gpudoctor.model.evidence import Evidence
from gpudoctor.model.finding import Code, Cost, Finding, Resource
from gpudoctor.model.log_message import LogMessage
from gpudoctor.model.patient import Patient
from gpudoctor.model.severity import Confidence, Severity
from gpudoctor.model.threshold import Threshold
from gpudoctor.model.track_record import TrackRecord, weighed
from gpudoctor.model.trait import Trait


class Reads(Enum):
    """The kinds of sign that reveal an ailment; the letters are the catalogue's."""

    ENVIRONMENT = "environment"
    SOURCE = "source"
    CONFIG = "config"
    RECORDING = "recording"
    PROCESS = "process"
    LOG = "log"


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
