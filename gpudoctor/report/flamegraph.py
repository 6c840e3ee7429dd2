"""Flame graphs as files that https://www.speedscope.app draws."""

import json
import os
from collections.abc import Sequence

from gpudoctor import __version__
from gpudoctor.model.flames import FlameFrame, FlameProfile

_SCHEMA = "https://www.speedscope.app/file-format-schema.json"


def speedscope(title: str, profiles: Sequence[FlameProfile], *, share: bool = False) -> str:
    """The file, a profile a rank, in seconds; `share` leaves folders out."""
    numbers: dict[FlameFrame, int] = {}
    listed = []
    for profile in profiles:
        samples, weights = [], []
        for stack, seconds in sorted(profile.stacks.items()):
            samples.append([numbers.setdefault(_shown(frame, share), len(numbers)) for frame in stack])
            weights.append(round(seconds, 6))
        listed.append({
            "type": "sampled", "name": profile.name, "unit": "seconds", "startValue": 0,
            "endValue": round(sum(weights), 6), "samples": samples, "weights": weights,
        })  # fmt: skip
    frames = [
        {
            "name": frame.name,
            **({"file": frame.path} if frame.path else {}),
            **({"line": frame.line} if frame.line else {}),
        }
        for frame in numbers
    ]
    document = {
        "$schema": _SCHEMA, "shared": {"frames": frames}, "profiles": listed, "name": title,
        "activeProfileIndex": 0, "exporter": f"gpudoctor@{__version__}",
    }  # fmt: skip
    return json.dumps(document) + "\n"


def _shown(frame: FlameFrame, share: bool) -> FlameFrame:
    return frame._replace(path=os.path.basename(frame.path)) if share and frame.path else frame
