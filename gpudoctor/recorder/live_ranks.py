"""What the parent sees of a run while it lasts: live files of the ranks, the file `stop`, a standstill."""

from contextlib import suppress
from pathlib import Path

from gpudoctor.errors import DoctorError
from gpudoctor.model.records import frozen
from gpudoctor.vitals.recording.live_files import STALE, RankNow, live_ranks

STOP = "stop"
"""A file that rank 0 makes once the steps that were asked for are done."""


@frozen
class Now:
    """The run at one moment."""

    ranks: tuple[RankNow, ...]

    @property
    def step(self) -> int:
        """Steps that every rank has done."""
        return min((rank.step for rank in self.ranks), default=0)

    @property
    def slowest(self) -> RankNow | None:
        """The rank with the longest steps among those that still write."""
        fresh = [rank for rank in self.ranks if rank.age <= STALE and rank.seconds > 0]
        return max(fresh, key=lambda rank: rank.seconds, default=None)


def look(folder: Path) -> Now:
    """The run by its live files; of a rank that was started again the newest counts."""
    found = {rank.rank: rank for rank in sorted(live_ranks(folder), key=lambda item: -item.age)}
    return Now(ranks=tuple(found[rank] for rank in sorted(found)))


# Whether a run stands still, and where each rank stands then: `--hang-after`.


@frozen
class RankStanding:
    """Ranks that stand at the same place."""

    ranks: tuple[int, ...]
    step: int
    """Steps done."""
    phase: str
    place: str
    """`function (path:line)` of the innermost frame, the program's if there is one; "" where none is known."""


class HangWatch:
    """Notices once each time that no rank ends a step for so many seconds."""

    def __init__(self, folder: Path, seconds: float) -> None:
        self._folder, self._seconds = folder, seconds
        self._first: float | None = None
        """Seconds after the start at which a rank first reported."""
        self._told_at = -1
        self._lived = False

    def look(self, now: Now, passed: float) -> tuple[float, list[RankStanding]] | None:
        """Seconds without a step and who stands where, once a hang; None while all is well or it was told."""
        if self._first is None and any(True for _ in self._folder.glob("rank-*.gdr")):
            self._first = passed
        if now.ranks:
            self._lived = True
        elif self._lived:
            return None  # the ranks have ended
        still = min((rank.age for rank in now.ranks), default=passed - (passed if self._first is None else self._first))
        if still < self._seconds or self._told_at == now.step:
            return None
        self._told_at = now.step
        return still, standings(self._folder)


def standings(folder: Path) -> list[RankStanding]:
    """Where the ranks stand by their last heartbeats; the fewest first, for they are the odd ones."""
    # All that reads recordings: a run that never hangs, or a program that records itself, does without.
    from gpudoctor.analysis.run.rank_positions import standing
    from gpudoctor.model import Unavailable
    from gpudoctor.vitals.recording.reader import read_recording

    groups: dict[tuple[int, str, str], list[int]] = {}
    with suppress(DoctorError, Unavailable, OSError):
        for item in standing(read_recording(str(folder))):
            place = f"{item.place.function} ({item.place.path}:{item.place.line})" if item.place is not None else ""
            groups.setdefault((item.step, item.phase, place), []).append(item.rank)
    found = [
        RankStanding(ranks=tuple(ranks), step=step, phase=phase, place=place)
        for (step, phase, place), ranks in groups.items()
    ]
    return sorted(found, key=lambda item: (len(item.ranks), item.step))
