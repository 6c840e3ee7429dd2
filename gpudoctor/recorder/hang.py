"""Whether a run stands still, and where each rank stands then: `--hang-after`."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from gpudoctor.analysis.run.deaths import library
from gpudoctor.analysis.run.run_numbers import made_steps
from gpudoctor.errors import DoctorError
from gpudoctor.model import Unavailable
from gpudoctor.model.signs.recording import Process
from gpudoctor.recorder.watch import Now
from gpudoctor.vitals.recording import read_recording


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
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

    def look(self, now: Now, passed: float) -> tuple[float, list[Standing]] | None:
        """Seconds without a step and who stands where, once a hang; None while all is well or it was told."""
        if self._first is None and any(True for _ in self._folder.glob("rank-*.gdr")):
            self._first = passed
        if now.ranks:
            self._lived = True
        elif self._lived:
            return None  # the ranks have ended
        still = min(
            (rank.age for rank in now.ranks), default=passed - (passed if self._first is None else self._first)
        )
        if still < self._seconds or self._told_at == now.step:
            return None
        self._told_at = now.step
        return still, standings(self._folder)


def standings(folder: Path) -> list[Standing]:
    """Where the ranks stand by their last heartbeats; the fewest first, for they are the odd ones."""
    with suppress(DoctorError, Unavailable, OSError):
        groups: dict[tuple[int, str, str], list[int]] = {}
        for process in read_recording(str(folder)).ranks:
            groups.setdefault(_stands(process), []).append(process.rank)
        found = [
            Standing(ranks=tuple(ranks), step=step, phase=phase, place=place)
            for (step, phase, place), ranks in groups.items()
        ]
        return sorted(found, key=lambda item: (len(item.ranks), item.step))
    return []


def _stands(process: Process) -> tuple[int, str, str]:
    beat, done = process.last("heartbeat"), made_steps(process)
    if beat is None or int(beat.get("step") or 0) < done:
        return done, "", ""  # it has moved since
    stack: Sequence[Sequence[object]] = beat.get("stack") or ()
    place = ""
    own = [frame for frame in stack if not library(str(frame[0]))]
    if stack:
        path, line, function = (*(own or stack)[-1], "", "", "")[:3]
        place = f"{function} ({path}:{line})"
    return int(beat.get("step") or 0), str(beat.get("phase") or ""), place
