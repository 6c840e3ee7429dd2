"""Flame graphs as files that other tools draw: speedscope's JSON, collapsed stacks (flamegraph.pl, inferno)."""

import json
import os
import re
from collections.abc import Sequence

from gpudoctor import __version__
from gpudoctor.model.flames import FlameFrame, FlameProfile

SPEEDSCOPE, COLLAPSED = (".json",), (".folded", ".collapsed", ".txt")
_SCHEMA = "https://www.speedscope.app/file-format-schema.json"
_MICROSECONDS = 1e6
"""Collapsed stacks have whole numbers: microseconds."""


def speedscope(title: str, profiles: Sequence[FlameProfile], *, share: bool = False) -> str:
    """A file for https://www.speedscope.app, a profile a rank, in seconds; `share` leaves folders out."""
    numbers: dict[FlameFrame, int] = {}
    listed = []
    for profile in profiles:
        samples, weights = [], []
        for stack, seconds in sorted(profile.stacks.items()):
            samples.append([numbers.setdefault(_shown(frame, share), len(numbers)) for frame in stack])
            weights.append(round(seconds, 6))
        listed.append(
            {
                "type": "sampled",
                "name": profile.name,
                "unit": "seconds",
                "startValue": 0,
                "endValue": round(sum(weights), 6),
                "samples": samples,
                "weights": weights,
            }
        )
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


def collapsed(profiles: Sequence[FlameProfile], *, share: bool = False) -> str:
    """A line a stack, frames between semicolons, and its microseconds; of several ranks, the rank first."""
    lines = []
    for profile in profiles:
        first = [profile.name] if len(profiles) > 1 else []
        for stack, seconds in sorted(profile.stacks.items()):
            if weight := round(seconds * _MICROSECONDS):
                names = [*first, *(_label(_shown(frame, share)) for frame in stack)]
                lines.append(f"{';'.join(map(_plain, names))} {weight}")
    return "\n".join(lines) + ("\n" if lines else "")


def _shown(frame: FlameFrame, share: bool) -> FlameFrame:
    return frame._replace(path=os.path.basename(frame.path)) if share and frame.path else frame


def _label(frame: FlameFrame) -> str:
    if not frame.path:
        return frame.name
    place = os.path.basename(frame.path) + (f":{frame.line}" if frame.line else "")
    return f"{frame.name} ({place})"


def _plain(text: str) -> str:
    """A name without what divides frames and lines."""
    return re.sub(r"[;\x00-\x1f\x7f]", "_", text)
