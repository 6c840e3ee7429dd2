"""The live files of a rank that `gpudoctor run` records: exact step time and phases, where they are there."""

import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from gpudoctor.model.external_files import load_json, read_text
from gpudoctor.model.read_limits import SMALL_JSON
from gpudoctor.model.signs.process import NAN, LiveSteps

RECORDING = "GPUDOCTOR_RECORDING"
"""The variable that carries the recording's folder to the probe."""
STALE = 10.0
"""Seconds after which a live file tells of the past."""


def recording_folder(environment: dict[str, str]) -> Path | None:
    """The folder that the probe in a process writes to; None where it was not started by `gpudoctor run`."""
    name = environment.get(RECORDING, "")
    return Path(name) if name else None


def live_steps(folder: Path | None, pid: int) -> LiveSteps | None:
    """The newest numbers of a rank; None where there are none or they are old."""
    if folder is None:
        return None
    with suppress(OSError, ValueError, TypeError, KeyError, AttributeError, OverflowError):
        for path in folder.glob(f"live-*-{pid}.json"):
            if time.time() - path.stat().st_mtime > STALE:
                continue
            live = load_json(read_text(path, SMALL_JSON))
            phases = {str(name): float(share) for name, share in (live.get("phases") or {}).items()}
            if phases:
                phases.setdefault("other", max(0.0, 1.0 - sum(phases.values())))
            return LiveSteps(
                step=int(live["step"]),
                seconds=float(live.get("seconds") or NAN),
                phases=phases,
                reads=_known(live, "reads"),
                loss=_known(live, "loss"),
                peak=_known(live, "peak"),
                reserved=_known(live, "reserved"),
            )
    return None


def _known(live: Mapping[str, Any], name: str) -> float:
    value = live.get(name)
    return NAN if value is None else float(value)
