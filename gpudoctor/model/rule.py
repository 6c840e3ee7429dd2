"""Rules: the protocol (a rule answers the findings of one check with remedies), and rules that are tables."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from string import Formatter
from typing import TYPE_CHECKING, ClassVar, TypeAlias, TypeVar

from gpudoctor.lang import say
from gpudoctor.lang.message import row_template
from gpudoctor.model.finding import Code, Detail, Finding, Resource
from gpudoctor.model.log_message import LogDetail
from gpudoctor.model.records import frozen, replace
from gpudoctor.model.remedy import Applicability, Effort, Remedy

if TYPE_CHECKING:
    from gpudoctor.model.patient import Patient


class Rule(ABC):
    """Answers findings with remedies that name the number to set for this patient.

    `prescribe` may raise `Unavailable` when a sign it needs is missing: what it yielded before stands.
    """

    reads_logs: ClassVar[bool] = False
    """Whether it answers findings that were read in a log, too: their detail is a `LogDetail`."""
    answers: ClassVar[Code]
    """The code of the check that it answers."""

    @abstractmethod
    def prescribe(self, finding: Finding, patient: "Patient") -> Iterator[Remedy]:
        """Yield remedies, any order: ranking is the engine's."""


_D = TypeVar("_D", bound=Detail)
Condition: TypeAlias = Callable[[Finding], bool]
Prescriber: TypeAlias = Callable[..., Iterator[Remedy]]


@frozen
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


def where(kind: type[_D], test: Callable[[_D], object]) -> Condition:
    """The condition that a test of the check's detail gives something true; never for one read in a log."""
    return lambda finding: not isinstance(finding.detail, LogDetail) and bool(test(finding.detail_of(kind)))


def answers(*codes: str) -> Callable[[Prescriber], Prescriber]:
    """Mark a function as the rule of these codes; it takes the finding, and the patient if it has two parameters."""

    def mark(function: Prescriber) -> Prescriber:
        vars(function)["answers"] = tuple(map(Code, codes))
        return function

    return mark


def rules_of(items: Iterable[Advice | Prescriber], module: str) -> tuple[type[Rule], ...]:
    """The rules of functions marked `@answers` and of rows: of each code one of its functions, then of its rows."""
    held: dict[tuple[bool, Code], tuple[Advice | Prescriber, ...]] = {}
    for item in items:
        row = isinstance(item, Advice)
        for code in (item.code,) if isinstance(item, Advice) else vars(item)["answers"]:
            held[row, code] = (*held.get((row, code), ()), item)
    return tuple(
        type(f"{code}Rule", (_MadeRule,), {"answers": code, "reads_logs": row, "items": found, "__module__": module})
        for (row, code), found in sorted(held.items(), key=lambda item: item[0][0])
    )


class _MadeRule(Rule):
    """What functions say of a finding, or every row whose condition holds, in their order."""

    items: ClassVar[tuple[Advice | Prescriber, ...]]

    def prescribe(self, finding: Finding, patient: "Patient") -> Iterator[Remedy]:
        for item in self.items:
            if not isinstance(item, Advice):
                yield from item(*(finding, patient)[: item.__code__.co_argcount])
            elif (remedy := item.answer(finding)) is not None:
                yield remedy


def _filled(text: str, finding: Finding) -> str:
    """The text with the detail's values in the place of their names; other braces stay."""
    template = row_template(text)
    values = finding.detail.placeholders() if finding.detail is not None else {}
    names = (field for _, field, _, _ in Formatter().parse(template) if field)
    parts = {name: values.get(name, f"{{{name}}}") for name in names}
    return say(template, **{name: part if isinstance(part, str) else str(part) for name, part in parts.items()})
