"""Rules: the protocol (a rule answers the findings of one check with remedies), and rules that are tables."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from string import Formatter
from typing import ClassVar, TypeAlias, TypeVar

from gpudoctor.lang import say
from gpudoctor.lang.message import row_template
from gpudoctor.model.finding import Code, Detail, Finding, Resource
from gpudoctor.model.log_message import LogDetail
from gpudoctor.model.patient import Patient
from gpudoctor.model.remedy import Applicability, Effort, Remedy


class Rule(ABC):
    """Answers findings with remedies that name the number to set for this patient.

    `prescribe` may raise `Unavailable` when a sign it needs is missing: what it yielded before stands.
    """

    reads_logs: ClassVar[bool] = False
    """Whether it answers findings that were read in a log, too: their detail is a `LogDetail`."""
    answers: ClassVar[Code]
    """The code of the check that it answers."""

    @abstractmethod
    def prescribe(self, finding: Finding, patient: Patient) -> Iterator[Remedy]:
        """Yield remedies, any order: ranking is the engine's."""


# Rules without computation: a table with a row for each remedy.

D = TypeVar("D", bound=Detail)
Condition: TypeAlias = Callable[[Finding], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """A row: a remedy whose texts are the same on every machine. `advise` makes it."""

    remedy: Remedy
    """Its title and steps name fields of the check's detail in braces: `look at rank {rank}`."""
    when: Condition | None = None
    """Whether it answers a finding; None for every finding of its code."""

    @property
    def code(self) -> Code:
        """The code of the check that it answers, which its id begins with."""
        return Code(self.remedy.id.partition("-")[0])

    def answer(self, finding: Finding) -> Remedy | None:
        """The remedy for a finding, its texts filled in; None where the row is not for that finding."""
        if self.when is not None and not self.when(finding):
            return None
        title, *steps = (_filled(text, finding) for text in (self.remedy.title, *self.remedy.steps))
        return replace(self.remedy, title=title, steps=tuple(steps))


def advise(
    id: str,  # the remedy's own word
    title: str,
    *steps: str,
    when: Condition | None = None,
    applicability: Applicability = Applicability.DISPLAY_ONLY,
    effort: Effort = Effort.SMALL_EDIT,
    sets: tuple[tuple[str, str], ...] = (),
    uses: frozenset[Resource] = frozenset(),
    override: tuple[tuple[str, str], ...] = (),
    references: tuple[str, ...] = (),
) -> Advice:
    """A row of a table: what to do, how, and for which findings; the rest as in `Remedy`."""
    remedy = Remedy(
        id=id,
        title=title,
        steps=steps,
        applicability=applicability,
        effort=effort,
        sets=sets,
        uses=uses,
        override=override,
        references=references,
    )
    return Advice(remedy=remedy, when=when)


def where(kind: type[D], test: Callable[[D], object]) -> Condition:
    """The condition that a test of the check's detail gives something true; never for one read in a log."""
    return lambda finding: not isinstance(finding.detail, LogDetail) and bool(test(finding.detail_of(kind)))


def in_log(*kinds: str) -> Condition:
    """The condition that the finding was read in a log, in one of these wordings, or in any."""
    return lambda finding: isinstance(finding.detail, LogDetail) and (not kinds or finding.detail.kind in kinds)


def asked(*kinds: str) -> Condition:
    """The condition of `in_log`, and that the message itself says what to do: the row's part `{asks}`."""
    return lambda finding: (
        in_log(*kinds)(finding) and isinstance(finding.detail, LogDetail) and "asks" in dict(finding.detail.values)
    )


def rules_of(rows: Iterable[Advice], module: str) -> tuple[type[Rule], ...]:
    """The rules that a module's rows make, one for each code."""
    tables: dict[Code, tuple[Advice, ...]] = {}
    for row in rows:
        tables[row.code] = (*tables.get(row.code, ()), row)
    return tuple(
        type(f"{code}Table", (_TableRule,), {"answers": code, "rows": found, "__module__": module})
        for code, found in tables.items()
    )


class _TableRule(Rule):
    """Every row of a code whose condition holds, in their order."""

    reads_logs = True
    rows: ClassVar[tuple[Advice, ...]]

    def prescribe(self, finding: Finding, patient: Patient) -> Iterator[Remedy]:  # noqa: ARG002
        for row in self.rows:
            remedy = row.answer(finding)
            if remedy is not None:
                yield remedy


def _filled(text: str, finding: Finding) -> str:
    """The text with the detail's values in the place of their names; other braces stay."""
    template = row_template(text)
    values = finding.detail.placeholders() if finding.detail is not None else {}
    names = (field for _, field, _, _ in Formatter().parse(template) if field)
    return say(template, **{name: _text(values.get(name, f"{{{name}}}")) for name in names})


def _text(value: object) -> str:
    return value if isinstance(value, str) else str(value)
