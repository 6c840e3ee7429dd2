"""What a resumed run took up, and what was only in the file: the card's line, and what is missing."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from gpudoctor.analysis.memo import once
from gpudoctor.analysis.run.training import integer
from gpudoctor.analysis.run.training.schedule import Scheduled, epochs_of, scheduled
from gpudoctor.lang import say
from gpudoctor.lang.message import concatenated
from gpudoctor.model.records import frozen
from gpudoctor.model.run import CardLine
from gpudoctor.model.signs.recording import Recording

_FEW = 0.05
"""A part of an epoch that does not count."""


@frozen
class Resumed:
    """What the first rank loaded. A state is an `optimizer` or a `schedule`."""

    weights: Sequence[Sequence[Any]]
    """Of each `load_state_dict` of a model what the record has."""
    taken: Mapping[str, bool]
    """Whether each began with a state."""
    held: Mapping[str, tuple[str, float]]
    """The file that held one, and its count."""
    goes_on: bool
    """Whether this run goes on with another: it writes what it read, or took up some state of it."""
    schedule: Scheduled | None
    into: int
    """Steps of an epoch that were made before, where this run begins with the whole of it; else 0."""


@once
def resumed(recording: Recording) -> Resumed | None:
    """What was loaded before or in a run; None where nothing was."""
    record = recording.ranks[0].last("state") if recording.ranks else None
    if record is None:
        return None
    schedule = next(reversed(scheduled(recording)), None)
    stepped = {"schedule": schedule.began > 0} if schedule is not None and schedule.calls else {}
    taken = {"optimizer": bool(record.get("taken")), **stepped}
    return Resumed(
        weights=record.get("weights") or (),
        taken=taken,
        held={what: (path, many) for path, what, many in record.get("files") or ()},
        goes_on=bool(record.get("again")) or any(taken.values()),
        schedule=schedule,
        into=_into(recording, schedule) if schedule is not None else 0,
    )


def _into(recording: Recording, schedule: Scheduled) -> int:
    """How far into an epoch a schedule stood that is stepped once a step, if the first one is a whole one; else 0."""
    made = integer(schedule.record, "made")
    bounds = [at for at in epochs_of(recording.ranks[0]) if at >= made]
    epochs = [later - at for at, later in pairwise(bounds)]
    *whole, last = epochs or [0]
    # The last one may be cut. One that is skipped into is shorter, and the first.
    if not whole or bounds[0] > made or len(set(whole)) > 1 or last > whole[0] or abs(schedule.each - 1) > _FEW:
        return 0
    into = schedule.began % epochs[0]
    share = into / epochs[0]
    return round(into) if _FEW < share < 1 - _FEW else 0


def states(recording: Recording) -> CardLine | None:
    """`resumed`: which states were taken up, and which were only in the file."""
    found = resumed(recording)
    if found is None or not (found.weights or found.goes_on):
        return None
    facts: dict[str, Any] = dict(found.taken)
    words = {}
    for what, is_taken in found.taken.items():
        if is_taken:
            words[what] = say("yes")
        else:
            words[what] = say("only in the file") if what in found.held else say("no")
    parts = [say("optimizer {taken}", taken=words["optimizer"])]
    if found.weights:
        _, given, _, unexpected, *_ = found.weights[-1]
        facts.update(weights=given - unexpected, given=given)
        parts.insert(0, say("weights {weights} of {given} tensors", **facts))
    if "schedule" in words:
        parts.append(say("schedule {taken}", taken=words["schedule"]))
    if found.into:
        parts.append(say("position in the data no"))
    return CardLine(name="resumed", text=concatenated(", ", parts), facts=facts)
