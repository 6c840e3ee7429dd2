"""What a resumed run took up, and what was only in the file: the card's line, and what is missing."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from gpudoctor.analysis.memo import once
from gpudoctor.analysis.run.training.schedule import Scheduled, scheduled
from gpudoctor.lang import say
from gpudoctor.lang.message import concatenated
from gpudoctor.model.records import frozen
from gpudoctor.model.run import CardLine
from gpudoctor.model.signs.recording import Recording

_FEW = 0.05
"""A part of an epoch that does not count."""


@frozen
class Resumed:
    """What the first rank loaded."""

    weights: Sequence[Sequence[Any]]
    """Of each `load_state_dict` of a model what the record has."""
    taken: bool
    """Whether an optimizer took up a state."""
    held: Mapping[str, tuple[str, float]]
    """By what it is (`optimizer`, `schedule`): the file that held it, and its count."""
    goes_on: bool
    """Whether this run goes on with another: it writes what it read, or took up some state of it."""
    schedule: Scheduled | None
    into: int
    """Steps of an epoch that were made before, where this run begins with the whole of it; else 0."""

    def lost(self, what: str) -> bool:
        """Whether a file holds a state of what begins afresh here."""
        item = self.schedule
        taken = self.taken if what == "optimizer" else item is None or not item.calls or item.began > 0
        return self.goes_on and not taken and self.held.get(what, ("", 0))[1] > 0


@once
def resumed(recording: Recording) -> Resumed | None:
    """What was loaded before or in a run; None where nothing was."""
    record = recording.ranks[0].last("state") if recording.ranks else None
    if record is None:
        return None
    schedule, taken = next(reversed(scheduled(recording)), None), bool(record.get("taken"))
    return Resumed(
        weights=record.get("weights") or (),
        taken=taken,
        held={what: (path, many) for path, what, many in record.get("files") or ()},
        goes_on=bool(record.get("again")) or taken or (schedule is not None and schedule.began > 0),
        schedule=schedule,
        into=_into(recording, schedule) if schedule is not None else 0,
    )


def _into(recording: Recording, schedule: Scheduled) -> int:
    steps = recording.ranks[0].steps
    made = int(schedule.record.get("made") or 0)
    starts = [
        at for at, new in zip(steps.column("index"), steps.column("starts"), strict=False) if new > 0 and at >= made
    ]
    epochs = [later - at for at, later in pairwise([*starts, schedule.steps] if schedule.ended else starts)]
    if not epochs or epochs.count(max(epochs)) < 2 or epochs[0] < max(epochs) or abs(schedule.each - 1) > _FEW:
        return 0
    into = schedule.began % epochs[0]
    return round(into) if _FEW < into / epochs[0] < 1 - _FEW else 0


def states(recording: Recording) -> CardLine | None:
    """`resumed`: which states were taken up, and which were only in the file."""
    found = resumed(recording)
    if found is None or not (found.weights or found.goes_on):
        return None

    def taken(it: bool, what: str) -> str:
        return say("yes") if it else say("only in the file") if what in found.held else say("no")

    facts: dict[str, Any] = {"optimizer": found.taken}
    parts = [say("optimizer {taken}", taken=taken(found.taken, "optimizer"))]
    if found.weights:
        _, given, _, unexpected, *_ = found.weights[-1]
        facts.update(weights=given - unexpected, given=given)
        parts.insert(0, say("weights {weights} of {given} tensors", **facts))
    if found.schedule is not None:
        facts["schedule"] = found.schedule.began > 0
        parts.append(say("schedule {taken}", taken=taken(facts["schedule"], "schedule")))
    if found.into:
        parts.append(say("position in the data no"))
    return CardLine(name="resumed", text=concatenated(", ", parts), facts=facts)
