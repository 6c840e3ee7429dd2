"""What can be tried: remedies of a report as arms. An edit is tried as it would be made, in memory."""

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from gpudoctor.lang import say
from gpudoctor.mend.plan import EditPlan, make_plan
from gpudoctor.model import Applicability, Ranked, Remedy, SourceSpan
from gpudoctor.trial.override_table import AT_PLACES, OVERRIDES
from gpudoctor.trial.trial_runner import Arm

_PYTHON = {".py", ".pyw"}
_PLACED = set(AT_PLACES.values())
_CONFIG = {".json", ".yaml", ".yml", ".toml", ".cfg", ".ini", ".txt"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A remedy that can be tried."""

    item: Ranked
    remedy: Remedy
    arm: Arm
    edits: bool
    """Whether the arm is the remedy's own edit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Untried:
    """A remedy that was asked for, or comes first, and cannot be tried."""

    item: Ranked
    remedy: Remedy
    reason: str


def candidates(ranked: Iterable[Ranked], *, unsafe: bool, named: Sequence[str] = ()) -> list[Candidate | Untried]:
    """The best remedy of each finding that can be tried; of those `named`, all.

    Two findings with one cure are tried once.
    """
    found: list[Candidate | Untried] = []
    seen: list[Arm] = []
    for item in ranked:
        refused: Untried | None = None
        for remedy in item.remedies:
            if named and remedy.id not in named:
                continue
            one = _candidate(item, remedy, unsafe)
            if isinstance(one, Untried):
                refused = refused or one
                continue
            if any(replace(one.arm, name=arm.name) == arm for arm in seen):
                break
            seen.append(one.arm)
            found.append(one)
            refused = None
            if not named:
                break
        if refused is not None:
            found.append(refused)
    return found


def joined(chosen: Sequence[Candidate], name: str = "together") -> Arm:
    """One arm of several: their edits merged as a mend would, their overrides side by side.

    Of two that change the same thing the first stands.
    """
    plan = plan_of([item for item in chosen if item.edits])
    arm = edited_arm(plan, name)
    overrides: dict[str, object] = {}
    environment: dict[str, str] = {}
    arguments: dict[str, str] = {}
    for item in chosen:
        for key, value in item.arm.overrides.items():
            if key in _PLACED:
                overrides[key] = [*overrides.get(key, ()), *value]  # type: ignore[misc]
            else:
                overrides.setdefault(key, value)
        environment = {**item.arm.environment, **environment}
        arguments = {**item.arm.arguments, **arguments}
    for key in _PLACED & set(overrides):  # the lines of an edited file are not those that the finding saw
        kept = [place for place in overrides[key] if os.path.realpath(place[0]) not in arm.sources]  # type: ignore[attr-defined]
        overrides[key] = kept
        if not kept:
            del overrides[key]
    return replace(arm, overrides=overrides, environment=environment, arguments=arguments)


def plan_of(chosen: Sequence[Candidate]) -> EditPlan:
    """The mend of these remedies."""
    return make_plan([replace(item.item, remedies=(item.remedy,)) for item in chosen], unsafe=True)


def _candidate(item: Ranked, remedy: Remedy, unsafe: bool) -> Candidate | Untried:
    allowed = {Applicability.SAFE, *([Applicability.UNSAFE] if unsafe else [])}
    reason = ""
    arm = _override_arm(item, remedy)
    by_override = arm is not None and _safety(remedy) in allowed
    if remedy.edits and remedy.applicability is not Applicability.DISPLAY_ONLY:
        if remedy.applicability in allowed or by_override:
            plan = make_plan([replace(item, remedies=(remedy,))], unsafe=True)
            edited = edited_arm(plan, remedy.id)
            if edited.sources or edited.configs:
                return Candidate(item=item, remedy=remedy, arm=edited, edits=True)
            reason = plan.left[0].reason if plan.left else say("a trial cannot replace its file")
        else:
            reason = say("it may change results: --unsafe tries it")
    if arm is not None and by_override:
        return Candidate(item=item, remedy=remedy, arm=arm, edits=False)
    if arm is not None and not reason:
        reason = say("it may change results: --unsafe tries it")
    return Untried(item=item, remedy=remedy, reason=reason or say("a person must do it"))


def _safety(remedy: Remedy) -> Applicability:
    """What an override is, by the table of overrides; a remedy's own word counts where that has none."""
    own = Applicability.SAFE if remedy.applicability is Applicability.SAFE else Applicability.UNSAFE
    known = [OVERRIDES[name][0] if name in OVERRIDES else own for name, _ in remedy.override]
    return Applicability.UNSAFE if Applicability.UNSAFE in known else Applicability.SAFE


def edited_arm(plan: EditPlan, name: str) -> Arm:
    """The arm of a mend: sources and configs with their new texts; empty where it changes none of them."""
    sources: dict[str, str] = {}
    configs: dict[str, str] = {}
    for mend in plan.files:
        path = os.path.realpath(mend.old.path)
        suffix = Path(path).suffix.lower()
        if suffix in _PYTHON:
            sources[path] = mend.new
        elif suffix in _CONFIG:
            configs[path] = mend.new
    return Arm(name=name, sources=sources, configs=configs)


def _override_arm(item: Ranked, remedy: Remedy) -> Arm | None:
    """The arm of a remedy's overrides; None where it has none, or they need a place that is not known."""
    if not remedy.override:
        return None
    arm = Arm(name=remedy.id)
    overrides: dict[str, object] = {}
    environment: dict[str, str] = {}
    arguments: dict[str, str] = {}
    for name, value in remedy.override:
        topic, _, rest = name.partition(".")
        if topic == "env":
            environment[rest] = value
        elif topic == "argument":
            arguments[rest] = value
        elif name in AT_PLACES:
            places = _places(item, int(value))
            if not places:
                return None
            overrides[AT_PLACES[name]] = places
        else:
            overrides[name] = value
    return replace(arm, overrides=overrides, environment=environment, arguments=arguments)


def _places(item: Ranked, period: int) -> list[list[str | int]]:
    """File, line and period of a finding's places in Python files."""
    spans = [part for part in item.finding.evidence if isinstance(part, SourceSpan)]
    found = dict.fromkeys((os.path.realpath(span.path), span.line) for span in spans)
    return [[path, line, period] for path, line in found if Path(path).suffix in _PYTHON and line > 0]
