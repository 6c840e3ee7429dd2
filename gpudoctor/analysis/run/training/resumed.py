"""What a resumed run took up, and what was only in the file: the card's line, and what is missing."""

from collections.abc import Mapping
from typing import Any

from gpudoctor.analysis.memo import once
from gpudoctor.analysis.run.training.schedule import Scheduled, scheduled
from gpudoctor.lang import say
from gpudoctor.lang.message import concatenated
from gpudoctor.model.records import frozen
from gpudoctor.model.run import CardLine
from gpudoctor.model.signs.recording import Recording

_TRAINED, _JUMP = 10, 1.5
"""Steps that a state was made in before it counts; a rate that is so many times another is a different one."""
_WEIGHTS = ("model", "given", "missing", "unexpected", "renamed", "own", "wanted", "found", "path", "line")


@frozen
class Weights:
    """One `load_state_dict` of a model."""

    model: str
    given: int
    missing: int
    unexpected: int
    renamed: int
    """Missing and unexpected names that differ by what stands before the first dot."""
    own: int
    """Given tensors that were the model's own already."""
    wanted: str
    found: str
    path: str | None
    line: int | None

    @property
    def matched(self) -> int:
        """Tensors that were taken."""
        return self.given - self.unexpected


@frozen
class Resumed:
    """What the first rank loaded."""

    weights: tuple[Weights, ...]
    optimizer: Mapping[str, Any]
    """Its state as it was loaded; empty where none was."""
    used: bool | None
    """Whether the optimizer that was given it makes steps."""
    held: Mapping[str, tuple[str, float]]
    """By what it is (`optimizer`, `schedule`): the file that held it, and its count."""
    optimizer_lost: bool
    """Whether a file holds the states of an optimizer that keeps some, and nothing took them."""
    goes_on: bool
    """Whether this run goes on with another: it writes what it read, or took up some state of it."""
    schedule: Scheduled | None

    @property
    def steps(self) -> float:
        """Steps that the states were made in."""
        return float(self.optimizer.get("steps") or self.held.get("schedule", ("", 0))[1])

    @property
    def schedule_lost(self) -> bool:
        """Whether the schedule began afresh, although the states are of later steps."""
        item = self.schedule
        if item is None or not item.calls or item.began or not self.goes_on:
            return False
        if self.held.get("schedule", ("", 0))[1] > 0:
            return bool(self.optimizer or self.weights)
        rate, first = float(self.optimizer.get("rate") or 0), item.rates[0][1] if item.rates else 0.0
        apart = rate and first and (first > _JUMP * rate or first * _JUMP < rate)
        return bool(apart and self.steps >= _TRAINED)


@once
def resumed(recording: Recording) -> Resumed | None:
    """What was loaded before or in a run; None where nothing was."""
    record = recording.ranks[0].last("state") if recording.ranks else None
    if record is None:
        return None
    files, optimizer = record.get("files") or [], record.get("optimizer") or {}
    held: dict[str, tuple[str, float]] = {}
    for path, parts in files:
        for _, what, many in parts:
            held.setdefault(what, (path, many))
    schedules = scheduled(recording)
    again = not set(record.get("saved") or ()).isdisjoint(path for path, _ in files)
    lost = not optimizer and bool(record.get("plain") and record.get("keeps")) and "optimizer" in held
    return Resumed(
        weights=tuple(Weights(**dict(zip(_WEIGHTS, row, strict=False))) for row in record.get("weights") or ()),
        optimizer=optimizer,
        used=record.get("used"),
        held=held,
        optimizer_lost=lost and held["optimizer"][1] > 0,
        goes_on=again or bool(optimizer) or any(item.began > 0 for item in schedules),
        schedule=schedules[0] if schedules else None,
    )


def states(recording: Recording) -> CardLine | None:
    """`resumed`: which states were taken up, and which were only in the file."""
    found = resumed(recording)
    if found is None or not (found.weights or found.goes_on):
        return None

    def taken(it: bool, what: str) -> str:
        return say("yes") if it else say("only in the file") if what in found.held else say("no")

    last = found.weights[-1] if found.weights else None
    began = found.schedule is not None and found.schedule.began > 0
    weights = say("{matched} of {given} tensors", matched=last.matched, given=last.given) if last else say("no")
    parts = [
        say("weights {taken}", taken=weights),
        say("optimizer {taken}", taken=taken(bool(found.optimizer), "optimizer")),
    ]
    if found.schedule is not None or "schedule" in found.held:
        parts.append(say("schedule {taken}", taken=taken(began, "schedule")))
    facts = {
        "weights": last.matched if last else None,
        "given": last.given if last else None,
        "optimizer": bool(found.optimizer),
        "schedule": began,
    }
    return CardLine(name="resumed", text=concatenated(", ", parts), facts=facts)
