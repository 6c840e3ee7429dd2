"""Where each rank stands when nothing moves: its last heartbeat, merged over ranks."""

import re
from collections import Counter
from collections.abc import Sequence

from gpudoctor.analysis.memo import once
from gpudoctor.analysis.run.deaths import library
from gpudoctor.analysis.run.line_costs import LinePlace
from gpudoctor.analysis.run.run_numbers import made_steps
from gpudoctor.analysis.run.steady_state import OTHER
from gpudoctor.lang import say
from gpudoctor.model.records import frozen
from gpudoctor.model.signs.recording import Process, Recording

_COLLECTIVE = "collective"
WAITING = frozenset({"backward", _COLLECTIVE})
"""Phases in which a rank waits for the others: gradients are reduced in backward."""
_PARALLELISM = re.compile(r"[/\\]torch[/\\](?:distributed|nn[/\\]parallel)[/\\]")
"""Files of torch that call collectives in whatever phase: DDP's forward broadcasts buffers, FSDP's gathers."""


@frozen
class RankPosition:
    """Where a rank is at the end of the recording."""

    rank: int
    step: int
    """Steps that it has ended."""
    phase: str
    """By its last heartbeat; "" where it wrote none since its last step."""
    silent: float
    """Seconds since its last step, up to the last sign of life; 0 where it never stood still."""
    place: LinePlace | None
    """Its innermost user line."""
    waits: bool = False
    """Whether it waits for other ranks, by its phase or its innermost frame."""

    @property
    def words(self) -> str:
        """In words: `step 41, in data_wait at train.py:30`."""
        place, phase = self.place, self.phase
        where = say(" at {file}:{line}", file=place.path.rpartition("/")[2], line=place.line) if place else ""
        doing = say(", in {phase}", phase=phase) if phase not in ("", OTHER) else ""
        return say("step {step}", step=self.step) + doing + where


@once
def standing(recording: Recording) -> tuple[RankPosition, ...]:
    """All ranks, by rank."""
    return tuple(_stand(process) for process in recording.ranks)


def _stand(process: Process) -> RankPosition:
    ends = process.steps.column("t")
    last = ends[-1] if len(ends) else 0.0
    made = made_steps(process)
    later = [
        item
        for item in process.of("heartbeat", "signal", "exception")
        # of a heartbeat from before its last step it has moved since
        if item.t >= last and not (item.type == "heartbeat" and int(item.get("step", made) or 0) < made)
    ]
    if not later:
        return RankPosition(rank=process.rank, step=made, phase="", silent=0.0, place=None)
    # What interrupted it at last found it where it stood, but its phase and its line may be of the way out.
    shown = next((item for item in reversed(later) if item.type == "heartbeat"), later[-1])
    frames = [frame for frame in shown.get("stack") or shown.get("frames") or () if len(frame) > 2]
    own = [frame for frame in frames if not library(str(frame[0]))]
    frame = own[-1] if own else frames[-1] if frames else None
    phase = str(shown.get("phase") or "")
    communicates = phase == _COLLECTIVE or bool(frames and _PARALLELISM.search(str(frames[-1][0])))
    # Seconds without a step up to the last sign of life; 0 where it ended before it had stood for long.
    beat = next((item for item in reversed(later) if item.type == "heartbeat"), None)
    silent = float(beat.get("seconds") or 0.0) + later[-1].t - beat.t if beat is not None else 0.0
    return RankPosition(
        rank=process.rank,
        step=made,
        phase=phase,
        silent=silent,
        place=LinePlace(path=str(frame[0]), line=int(frame[1]), function=str(frame[2])) if frame else None,
        waits=phase in WAITING or communicates,
    )


def _where(item: RankPosition) -> tuple[int, str, int]:
    return item.step, item.phase, item.place.line if item.place else 0


def odd_one(everyone: Sequence[RankPosition]) -> RankPosition | None:
    """The rank that stands where no other does, when all others stand together; None otherwise."""
    if len(everyone) < 2:
        return None
    key = {item.rank: _where(item) for item in everyone}
    together = Counter(key.values())
    most, count = together.most_common(1)[0]
    odd = [item for item in everyone if key[item.rank] != most]
    if len(everyone) == 2 and len(together) == 2:
        # Of two that wait alike at the same step nobody knows who is missing.
        first, second = sorted(everyone, key=lambda item: (item.step, item.waits))
        return first if (first.step, first.waits) != (second.step, second.waits) else None
    return odd[0] if len(odd) == 1 and count == len(everyone) - 1 else None
