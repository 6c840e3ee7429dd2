"""The protocol of a check (one ailment, whatever reveals it), its thresholds, and how its examination ended."""

import json
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from enum import Enum
from functools import lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING, ClassVar, TypeAlias

from gpudoctor.lang import say, template, term
from gpudoctor.model.evidence import Evidence, SourceSpan
from gpudoctor.model.finding import Code, Confidence, Cost, Detail, Finding, Resource, Severity, Trait
from gpudoctor.model.log_message import LibraryWarning, LogMessage
from gpudoctor.model.records import frozen, replace

if TYPE_CHECKING:
    from gpudoctor.model.patient import Patient

OWN_CHOICE = say("convention: gpudoctor's own choice, no published figure is known")
"""The source of a number that has no other one."""


@frozen(kw_only=False)
class Threshold:
    """One number that a check compares with, overridable in `[tool.gpudoctor.thresholds]`."""

    name: str
    """Snake-case name, unique within its check. Users write `CODE.name = value`."""
    default: float
    """The value in `unit` when nobody overrides it."""
    unit: str
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
        note = say("{meaning} a note.", meaning=term(meaning))
        warning = say("{meaning} a warning.", meaning=term(meaning))
        first = cls(f"{name}_noted", noted, "1", source, note)
        return first, cls(f"{name}_warned", warned, "1", source_warned or source, warning)


# The track record of a check on code that nobody here wrote, and what follows from it for a mere suspicion.

_ENOUGH = 5
"""Judged findings from which a share says something: with four, one wrong one decides."""
_LEAST = 0.75
"""Share of right ones that a warning needs. Above 30 % wrong, people begin to ignore a tool; below 20 %
was the aim of Bessey et al., "A Few Billion Lines of Code Later", CACM 53(2), 2010. This is the middle."""


@frozen
class TrackRecord:
    """How often what a check found in source or config alone was right on public code (docs/accuracy.md).

    A row of `track_record.json` at the root of the check's package. Debatable findings and notes do not count.
    """

    right: int = 0
    """Errors and warnings that people who did not know the check called right."""
    wrong: int = 0
    suspected: str = ""
    """What a suspicion becomes, where the numbers alone do not decide: `warning`, `note` or `preview`."""

    @property
    def follows(self) -> str:
        """What a suspicion becomes: as written, else a note where too many warnings were wrong."""
        judged = self.right + self.wrong
        return self.suspected or ("note" if judged >= _ENOUGH and self.right < _LEAST * judged else "warning")

    def said(self, finding: Finding, *, preview: bool) -> Finding | None:
        """The finding as a report has it; None where it waits for `--preview`. What was measured stays."""
        if finding.confidence is not Confidence.SUSPECTED:
            return finding
        if self.follows == "preview":
            return finding if preview else None
        lowered = self.follows == "note" and finding.severity is Severity.WARNING
        return replace(finding, severity=Severity.NOTE) if lowered else finding

    @property
    def text(self) -> str:
        """The record and what follows, as a manual page says it."""
        counted = say("no error or warning from source alone was judged on public code")
        if judged := self.right + self.wrong:
            text = template("{right} of {judged} errors and warnings from source alone were right on public code")
            counted = say(text, right=self.right, judged=judged)
        if self.follows == "note":
            return say("{counted}; it is a note until a run has measured it", counted=counted)
        if self.follows == "preview":
            return say("{counted}; without a run, only `--preview` shows it", counted=counted)
        return counted


@lru_cache
def _records(package: str) -> dict[str, TrackRecord]:
    if not hasattr(sys.modules.get(package), "__path__"):
        return {}
    table = files(package).joinpath("track_record.json")
    rows = json.loads(table.read_text(encoding="utf-8")) if table.is_file() else {}
    return {code: TrackRecord(**row) for code, row in rows.items()}


def track_record(check: "type[Check]") -> TrackRecord:
    """The track record of a check; an empty one where its package has none."""
    return _records(check.__module__.partition(".")[0]).get(check.code, TrackRecord())


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
    name: ClassVar[str]
    """The ailment in kebab case: the module's name with dashes, where a check gives no other one."""
    reads: ClassVar[frozenset[Reads]]
    """What reveals it. Best evidence first is the check's own business."""
    severity: ClassVar[Severity] = Severity.WARNING
    """The severity when `finding` is not told otherwise."""
    mentions: ClassVar[tuple[str, ...]] = ()
    """Words of which a script or a variable's name holds one, unless a run, a launch or a config shows the ailment."""
    maturity: ClassVar[Maturity] = Maturity.STABLE
    log_messages: ClassVar[tuple[LogMessage, ...]] = ()
    """What a log says of the ailment; the engine makes the finding where one of them is the first cause."""
    log_messages_file: ClassVar[str] = ""
    """A TOML file beside the check with more of them, under its code: it is not read before a log is."""
    library_warnings: ClassVar[tuple[LibraryWarning, ...]] = ()
    """What libraries themselves say of the ailment while the training goes on; the engine makes the finding."""
    thresholds: ClassVar[tuple[Threshold, ...]] = ()
    traits: ClassVar[frozenset[Trait]] = frozenset()
    """What its findings mean to verdicts and trials beyond their topic."""
    judges: ClassVar[str] = ""
    """The area that a verdict calls judged once this check looked, beside its topic's; "" for none."""
    silent_on_synthetic: ClassVar[str | None] = None
    """Why it says nothing of a job with random weights and random data; None where it says something."""
    no_rule: ClassVar[str | None] = None
    """Why no rule answers it, when none does."""

    def __init_subclass__(cls) -> None:
        if "name" not in vars(cls):
            cls.name = cls.__module__.rpartition(".")[2].replace("_", "-")

    def __init__(self, overrides: Mapping[str, float] | None = None) -> None:
        self._limits = {item.name: item.default for item in self.thresholds} | dict(overrides or {})

    @classmethod
    def all_log_messages(cls) -> tuple[LogMessage, ...]:
        """`log_messages`, and those of `log_messages_file`; raises `ValueError` if that is no such file."""
        if not cls.log_messages_file:
            return cls.log_messages
        from gpudoctor.model.message_files import read_messages

        rows = read_messages(cls.__module__.rpartition(".")[0], cls.log_messages_file)
        return (*cls.log_messages, *rows.get(cls.code, ()))

    @abstractmethod
    def examine(self, patient: "Patient") -> Iterator[Finding]:
        """Yield a finding for each place where the patient has the ailment."""

    def log_kind(self, kind: str, values: Mapping[str, str]) -> str:  # noqa: ARG002  # a check may tell more
        """The wording that a message's values show, where they tell more than its text; else the same one."""
        return kind

    def beside_log(self, finding: Finding, patient: "Patient") -> Finding | None:  # noqa: ARG002
        """The finding of a log, with what else was left behind: stack dumps, a kernel log.

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
        confidence: Confidence | None = None,
        severity: Severity | None = None,
        breaks: str | None = None,
        cost: Cost | None = None,
        subject: str | None = None,
        scarce: Resource | None = None,
        effect_of: Code | None = None,
        detail: Detail | None = None,
    ) -> Finding:
        """A finding of this check; what the source suspects is told by its first place if by no `subject`.

        Without a `confidence` it is suspected if the check reads sources or configs, else confirmed.
        """
        declared = self.reads & {Reads.SOURCE, Reads.CONFIG}
        confidence = confidence or (Confidence.SUSPECTED if declared else Confidence.CONFIRMED)
        places = [item for item in evidence[:1] if confidence is Confidence.SUSPECTED and isinstance(item, SourceSpan)]
        subject = "".join(f"{place.path}:{place.line}" for place in places) if subject is None else subject
        return Finding(
            code=self.code,
            name=self.name,
            severity=severity or self.severity,
            confidence=confidence,
            message=message,
            evidence=evidence,
            cost=cost or Cost(breaks=breaks or None),
            subject=subject,
            scarce=frozenset() if scarce is None else frozenset({scarce}),
            effect_of=effect_of,
            detail=detail,
            traits=self.traits,
        )


# How the examination of one check ended: four ways, always shown.


@frozen
class Passed:
    """The check looked and found nothing that is not silenced."""

    code: Code
    silenced: int = 0
    judges: str = ""


@frozen
class Found:
    """The check found the ailment, once or more often."""

    code: Code
    findings: tuple[Finding, ...]
    judges: str = ""


@frozen
class Skipped:
    """The check could not look: a sign is missing, or the user deselected it."""

    code: Code
    reason: str
    deselected: bool = False
    """True when it was not selected; such a skip is no gap in the examination."""
    held: bool = False
    """True when what it suspects waits for `--preview`; no gap either."""


@frozen
class Crashed:
    """The check or a reader failed; a result like the others, and the rest goes on."""

    code: Code
    error: str


Outcome: TypeAlias = Passed | Found | Skipped | Crashed
