"""Where each rank stands when nothing moves: its last heartbeat, merged over ranks."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from gpudoctor.model.reading.once import once
from gpudoctor.model.reading.recordings.costs import Place
from gpudoctor.model.reading.recordings.numbers import made_steps
from gpudoctor.model.signs.recording import Process, Recording


@dataclass(frozen=True, slots=True, kw_only=True)
class Stand:
    """Where a rank is at the end of the recording."""

    rank: int
    step: int
    """Steps that it has ended."""
    phase: str
    """By its last heartbeat; "" where it wrote none since its last step."""
    silent: float
    """Seconds since its last step by that heartbeat; 0 without one."""
    place: Place | None
    """Its innermost user line."""

    @property
    def words(self) -> str:
        """In words: `step 41, in data_wait at train.py:30`."""
        where = f" at {self.place.path.rpartition('/')[2]}:{self.place.line}" if self.place else ""
        return f"step {self.step}" + (f", in {self.phase}" if self.phase else "") + where


@once
def standing(recording: Recording) -> tuple[Stand, ...]:
    """All ranks, by rank."""
    return tuple(_stand(process) for process in recording.ranks)


def _stand(process: Process) -> Stand:
    ends = process.steps.column("t")
    last = ends[-1] if len(ends) else 0.0
    beats = [item for item in process.of("heartbeat", "signal", "exception") if item.t >= last]
    if not beats:
        return Stand(rank=process.rank, step=made_steps(process), phase="", silent=0.0, place=None)
    beat = beats[-1]
    frames = list(beat.get("stack") or beat.get("frames") or ())
    index = beat.get("user")
    frame = frames[index] if isinstance(index, int) and index < len(frames) else frames[-1] if frames else None
    return Stand(
        rank=process.rank,
        step=made_steps(process),
        phase=str(beat.get("phase") or ""),
        silent=float(beat.get("seconds") or 0.0),
        place=Place(path=str(frame[0]), line=int(frame[1]), function=str(frame[2])) if frame else None,
    )


def odd_one(everyone: Sequence[Stand]) -> Stand | None:
    """The rank that stands where no other does, when all others stand together; None otherwise."""
    if len(everyone) < 2:
        return None
    key = {item.rank: (item.step, item.phase, item.place.line if item.place else 0) for item in everyone}
    together = Counter(key.values())
    most, count = together.most_common(1)[0]
    odd = [item for item in everyone if key[item.rank] != most]
    if len(everyone) == 2 and len(together) == 2:
        return min(everyone, key=lambda item: (item.step, item.phase in ("collective", "backward")))
    return odd[0] if len(odd) == 1 and count == len(everyone) - 1 else None
