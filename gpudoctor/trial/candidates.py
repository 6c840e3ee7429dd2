"""What can be tried: remedies of a report as arms. An edit is tried as it would be made."""

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from gpudoctor.lang import say
from gpudoctor.mend.plan import EditPlan, make_plan
from gpudoctor.model import Applicability, Ranked, Remedy
from gpudoctor.model.records import frozen, replace
from gpudoctor.trial.override_table import OVERRIDES, is_known
from gpudoctor.trial.trial_runner import Arm

_READ = {".py", ".pyw", ".json", ".yaml", ".yml", ".toml", ".cfg", ".ini", ".txt"}
"""Files that a training reads; a job script is not one."""
_WATCHES = "every"
"""What rules call a change of how often the program watches itself: the training's numbers stay, so its edit is tried
without --unsafe."""


@frozen
class Candidate:
    """A remedy that can be tried."""

    item: Ranked
    remedy: Remedy
    arm: Arm
    edits: bool
    """Whether the arm is the remedy's own edit."""


@frozen
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
    arm = edited_arm(plan_of([item for item in chosen if item.edits]), name)
    fields: dict[str, Any] = {"overrides": {}, "environment": {}, "arguments": {}}
    for item in reversed(chosen):
        for field, values in fields.items():
            values.update(getattr(item.arm, field))
    return replace(arm, **fields)


def plan_of(chosen: Sequence[Candidate]) -> EditPlan:
    """The mend of these remedies."""
    return make_plan([replace(item.item, remedies=(item.remedy,)) for item in chosen], unsafe=True)


def _candidate(item: Ranked, remedy: Remedy, unsafe: bool) -> Candidate | Untried:
    allowed = {Applicability.SAFE, *([Applicability.UNSAFE] if unsafe else [])}
    by_override = bool(remedy.override) and all(_safety(remedy, name) in allowed for name, _ in remedy.override)
    refused = say("it may change results: --unsafe tries it")
    if remedy.edits and remedy.applicability is not Applicability.DISPLAY_ONLY:
        if remedy.applicability not in allowed and not by_override:
            return Untried(item=item, remedy=remedy, reason=refused)
        plan = make_plan([replace(item, remedies=(remedy,))], unsafe=True)
        edited = edited_arm(plan, remedy.id)
        if edited.texts:
            return Candidate(item=item, remedy=remedy, arm=edited, edits=True)
        reason = plan.left[0].reason if plan.left else say("a trial cannot replace its file")
        return Untried(item=item, remedy=remedy, reason=reason)
    arm = _override_arm(remedy)
    if arm is None:
        return Untried(item=item, remedy=remedy, reason=say("a person must do it"))
    if not by_override:
        return Untried(item=item, remedy=remedy, reason=refused)
    return Candidate(item=item, remedy=remedy, arm=arm, edits=False)


def _safety(remedy: Remedy, name: str) -> Applicability:
    """What an override is, by the table of overrides; a remedy's own word counts where that has none."""
    if name in OVERRIDES:
        return OVERRIDES[name]
    safe = name == _WATCHES or remedy.applicability is Applicability.SAFE
    return Applicability.SAFE if safe else Applicability.UNSAFE


def edited_arm(plan: EditPlan, name: str) -> Arm:
    """The arm of a mend: files with their new texts; empty where no training reads them."""
    paths = {os.path.realpath(mend.old.path): mend.new for mend in plan.files}
    return Arm(name=name, texts={path: text for path, text in paths.items() if Path(path).suffix.lower() in _READ})


def _override_arm(remedy: Remedy) -> Arm | None:
    """The arm of a remedy's overrides; None where it has none, or one that only its edit can do."""
    fields: dict[str, Any] = {"overrides": {}, "environment": {}, "arguments": {}}
    for name, value in remedy.override:
        topic, _, rest = name.partition(".")
        if topic == "env":
            fields["environment"][rest] = value
        elif topic == "argument":
            fields["arguments"][rest] = value
        elif is_known(name):
            fields["overrides"][name] = value
        else:
            return None
    return Arm(name=remedy.id, **fields) if remedy.override else None
