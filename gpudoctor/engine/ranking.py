"""Ranking: one pure function from findings and their remedies to a prescription, with a reason for each place.

The order: what breaks the run first, notes last (nobody has to act on one), and before what is slow what is wrong.
Among the rest and among notes what a run measured comes first, then expected gain times confidence, then severity,
then effort, then what uses a resource up before what says that it is short. What no run measured is of the machine
or of the text. What a finding belongs to, its cause or the loss that it explains, takes the place of the better
placed of both, and the finding follows it. Two remedies that turn the same knob differently, or one that uses what
another finding says is scarce, are told apart here and nowhere else: the lower one is set aside with the reason. If
a cause has a remedy, the remedies of what belongs to it are set aside too: they would treat a symptom.
"""

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet

from gpudoctor.lang import say, term
from gpudoctor.model.evidence import Measurement, Provenance
from gpudoctor.model.finding import Code, Confidence, Finding, Resource, Severity
from gpudoctor.model.records import frozen
from gpudoctor.model.remedy import Applicability, Effect, Remedy
from gpudoctor.model.report import Ranked, SetAside
from gpudoctor.text import percent

UNPRICED_GAIN = {Severity.ERROR: 0.20, Severity.WARNING: 0.10, Severity.NOTE: 0.01}
"""Share of step time that an unmeasured finding stands for when it is ordered among measured ones.

A convention, not a measurement: a warning is by definition worth acting on, and the catalogue's thresholds call
5 to 20 % of a step a warning. It is never shown as a number.
"""


_WRONG = ("TRAIN", "NUM", "LOOP")
"""Topics that ask whether a training learns what it should; no speed makes up for that."""
_REPORT = "gpudoctor report "
"""What shows a number of a recording again."""


@frozen
class Case:
    """A finding with the remedies that its rules gave."""

    finding: Finding
    remedies: tuple[Remedy, ...]


@frozen(kw_only=False)
class _Turned:
    """A knob that a better placed remedy turns; `place` is None for a knob of the whole job."""

    knob: str
    value: str
    place: tuple[str, int] | None
    remedy: str


def rank(cases: Iterable[Case]) -> tuple[Ranked, ...]:
    """Put findings in order of what to act on first, and their remedies best first."""
    ordered = _causes_first(sorted(cases, key=_place))
    scarce = _scarcity(ordered)
    taken: list[_Turned] = []
    answered: set[Code] = set()
    ranked: list[Ranked] = []
    for position, case in enumerate(ordered, start=1):
        kept, aside = _settle(case, scarce, taken, answered)
        if kept:
            answered.add(case.finding.code)
        ranked.append(
            Ranked(
                rank=position, finding=case.finding, remedies=tuple(kept), set_aside=tuple(aside), reason=_reason(case)
            )
        )
    return tuple(ranked)


def expected_share(effect: Effect) -> float:
    """Share of step time that a throughput effect stands for: 1 - 1/x at the middle of its range.

    0 for effects on other quantities, which have no common scale with time.
    """
    if effect.quantity != "throughput" or effect.unit != "x" or effect.low <= 0 or effect.high <= 0:
        return 0.0
    middle: float = (effect.low * effect.high) ** 0.5
    return max(0.0, 1.0 - 1.0 / middle)


def _gain(case: Case) -> tuple[float, str]:
    """What the finding can give back, as a share of step time, and how that is known."""
    finding, cost = case.finding, case.finding.cost
    if cost.step_share is not None:
        return cost.step_share, say("costs {step_share} of a step", step_share=percent(cost.step_share))
    if cost.host_share is not None:
        share = percent(cost.host_share)
        return cost.host_share, say("takes {share} of the host's time in a step; its gain is unknown", share=share)
    best = max((expected_share(remedy.effect) for remedy in case.remedies if remedy.effect), default=0.0)
    if best > 0:
        return best, say("its best remedy may give back {best} of a step", best=percent(best))
    return UNPRICED_GAIN[finding.severity], say("not priced; a {severity}", severity=term(finding.severity.value))


def doubtful(finding: Finding) -> bool:
    """Whether a run showed that something else is learned than was meant."""
    seen = finding.confidence is Confidence.CONFIRMED and finding.cost.share is None
    return seen and finding.code.startswith(_WRONG)


def _place(case: Case) -> tuple[bool, bool, bool, bool, float, int, int, bool, str, str, str, int, str]:
    """Where a case stands; the finding's whole text comes last, so that no two different ones are equal."""
    finding = case.finding
    span = finding.span
    return (
        finding.cost.breaks is None,
        finding.severity is Severity.NOTE,
        not doubtful(finding),
        not _measured(finding),
        -_gain(case)[0] * finding.confidence.weight,
        -finding.severity.rank,
        min((remedy.effort.rank for remedy in case.remedies), default=99),
        bool(finding.scarce),
        finding.code,
        finding.subject,
        span.path if span else "",
        span.line if span else 0,
        repr(finding),
    )


def _measured(finding: Finding) -> bool:
    """Whether the finding is known to cost time, or a run showed it: a number was read from a recording."""
    if finding.cost.share is not None:
        return True
    numbers = (item for item in finding.evidence if isinstance(item, Measurement))
    read = (item.reproduce or "" for item in numbers if item.provenance is Provenance.MEASURED)
    return finding.confidence is Confidence.CONFIRMED and any(text.startswith(_REPORT) for text in read)


def _causes_first(ordered: Sequence[Case]) -> list[Case]:
    """The same order, but a cause takes the place of its best placed effect, and its effects follow it."""
    causes = {case.finding.effect_of for case in ordered} & {case.finding.code for case in ordered}
    first: dict[Code, int] = {}
    places: dict[int, tuple[int, bool]] = {}
    for at, case in enumerate(ordered):
        cause = case.finding.effect_of
        effect = cause is not None and cause in causes
        whose = cause if cause is not None and effect else case.finding.code
        places[id(case)] = (first.setdefault(whose, at) if whose in causes else at, effect)
    return sorted(ordered, key=lambda case: places[id(case)])


def _reason(case: Case) -> str:
    finding = case.finding
    sure = term(finding.confidence.value)
    if finding.cost.breaks is not None:
        return say("first because it breaks the job: {breaks} ({sure})", breaks=finding.cost.breaks, sure=sure)
    effort = min((remedy.effort for remedy in case.remedies), key=lambda item: item.rank, default=None)
    return say("{words}, {sure}", words=_gain(case)[1], sure=sure) + (
        say("; {effort}", effort=term(effort.value)) if effort else ""
    )


def _scarcity(cases: Sequence[Case]) -> dict[Resource, str]:
    """Resources that some finding says are short, with the finding that says so."""
    found: dict[Resource, str] = {}
    for case in cases:
        for resource in case.finding.scarce:
            found.setdefault(
                resource, say("{code} says {resource} is short", code=case.finding.code, resource=term(resource.value))
            )
    return found


def _settle(
    case: Case, scarce: dict[Resource, str], taken: list[_Turned], answered: AbstractSet[Code]
) -> tuple[list[Remedy], list[SetAside]]:
    """Remedies of one finding that stand, best first, and those that do not.

    `taken` holds the knobs that better placed remedies turn, and grows by the best remedy kept here.
    `answered` has the codes of better placed findings that keep a remedy.
    """
    span = case.finding.span
    place = (span.path, span.line) if span else None
    cause = case.finding.effect_of
    symptom = say("it belongs to {cause}: fix {cause} first", cause=cause) if cause in answered else None
    kept: list[Remedy] = []
    aside: list[SetAside] = []
    for remedy in sorted(case.remedies, key=_worth):
        clash = symptom or _short(case, remedy, scarce) or _turned_already(remedy, place, taken)
        if clash is None:
            kept.append(remedy)
        else:
            aside.append(SetAside(remedy=remedy, reason=clash))
    for knob, value in kept[0].sets if kept else ():
        taken.append(_Turned(knob, value, place, kept[0].id))
    return kept, aside


def _short(case: Case, remedy: Remedy, scarce: dict[Resource, str]) -> str | None:
    """Why a remedy uses what is short; the finding that says so may answer with a trade of its own."""
    for resource in sorted(remedy.uses, key=lambda item: item.value):
        if resource in scarce and resource not in case.finding.scarce:
            return say("it uses more {resource}, and {scarce}", resource=resource.value, scarce=scarce[resource])
    return None


def _turned_already(remedy: Remedy, place: tuple[str, int] | None, taken: list[_Turned]) -> str | None:
    """Why a remedy disagrees with a better placed one on the same knob of the same call (or of the job)."""
    for knob, value in remedy.sets:
        for other in taken:
            same_place = place is None or other.place is None or place == other.place
            if other.knob == knob and other.value != value and same_place:
                return say(
                    "{remedy} sets {knob} to {other}, this one to {value}",
                    remedy=other.remedy,
                    knob=knob,
                    other=other.value,
                    value=value,
                )
    return None


def _worth(remedy: Remedy) -> tuple[float, int, int, str]:
    """Best first: expected gain, least effort, what a machine may do."""
    applicability = list(Applicability).index(remedy.applicability)
    gain = expected_share(remedy.effect) if remedy.effect else 0.0
    return (-gain, remedy.effort.rank, applicability, remedy.id)
