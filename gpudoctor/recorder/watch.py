"""What the parent sees of a run while it lasts: the ranks' live files, and the file `stop`."""

import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpudoctor.model.external_files import load_json, read_text
from gpudoctor.model.read_limits import SMALL_JSON

STOP = "stop"
"""A file that rank 0 makes once the steps that were asked for are done."""
_STALE = 10.0
"""Seconds without a new live file after which a step time is of the past."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RankNow:
    """One rank at its last live file."""

    rank: int
    pid: int
    step: int
    """Steps done."""
    seconds: float
    """Of a step, lately; NaN before the first."""
    phases: Mapping[str, float] = field(default_factory=dict)
    """Share of step time by phase, lately."""
    age: float = 0.0
    """Seconds since it was written."""


@dataclass(frozen=True, slots=True, kw_only=True)
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
        fresh = [rank for rank in self.ranks if rank.age <= _STALE and rank.seconds > 0]
        return max(fresh, key=lambda rank: rank.seconds, default=None)


def look(folder: Path) -> Now:
    """Read the live files; one that is being written or makes no sense is left out."""
    found: dict[int, RankNow] = {}
    for path in sorted(folder.glob("live-*.json")):
        with suppress(OSError, ValueError, TypeError, KeyError, AttributeError, OverflowError):
            age = time.time() - path.stat().st_mtime
            rank = _rank(path, load_json(read_text(path, SMALL_JSON)), age)
            before = found.get(rank.rank)
            if before is None or before.age > rank.age:  # a rank that was started again has a second file
                found[rank.rank] = rank
    return Now(ranks=tuple(found[rank] for rank in sorted(found)))


def _rank(path: Path, live: Mapping[str, Any], age: float) -> RankNow:
    _, rank, pid = path.stem.split("-")
    return RankNow(
        rank=int(rank) if rank.isdigit() else 0,
        pid=int(pid),
        step=int(live["step"]),
        seconds=float(live.get("seconds") or "nan"),
        phases={str(name): float(share) for name, share in (live.get("phases") or {}).items()},
        age=age,
    )
