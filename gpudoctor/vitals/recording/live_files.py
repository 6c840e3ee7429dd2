"""What each rank of a recorded run writes of itself while it lasts: `live-RANK-PID.json`."""

import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from gpudoctor.model.external_files import load_json, read_text
from gpudoctor.model.read_limits import SMALL_JSON
from gpudoctor.model.records import field, frozen

STALE = 10.0
"""Seconds after which a live file tells of the past."""


@frozen
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
    loss: float = float("nan")
    age: float = 0.0
    """Seconds since it was written."""


def live_ranks(folder: Path, pid: str = "*") -> list[RankNow]:
    """The live files of all ranks, or of a process; one that is being written or makes no sense is left out."""
    found: list[RankNow] = []
    for path in sorted(folder.glob(f"live-*-{pid}.json")):
        with suppress(OSError, ValueError, TypeError, KeyError, AttributeError, OverflowError):
            age = time.time() - path.stat().st_mtime
            live = load_json(read_text(path, SMALL_JSON))
            _, name, number = path.stem.split("-")
            found.append(
                RankNow(
                    rank=int(name) if name.isdigit() else 0,
                    pid=int(number),
                    step=int(live["step"]),
                    seconds=float(live.get("seconds") or "nan"),
                    phases={str(word): float(share) for word, share in (live.get("phases") or {}).items()},
                    loss=float("nan" if live.get("loss") is None else live["loss"]),
                    age=age,
                )
            )
    return found
