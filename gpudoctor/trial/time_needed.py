"""Whether a budget allows one comparison, before the command runs: by an earlier recording of it."""

import math
import os
from collections.abc import Sequence

from gpudoctor.lang import say
from gpudoctor.model import Unavailable
from gpudoctor.model.redaction import mask_arguments, mask_text
from gpudoctor.recorder.kept_recordings import KeptRecording, kept_recordings
from gpudoctor.text import duration
from gpudoctor.trial.decision import LOOKS
from gpudoctor.trial.session import LEAST_PAIRS, LOOKED_SECONDS, WINDOW_SECONDS, budget_flag, lap_of
from gpudoctor.vitals.recording import read_recording

_LARGEST = 32 << 20
"""Bytes of a recording that is read before the command starts."""


def too_short(command: Sequence[str], budget: float, window_steps: int | None) -> str:
    """Why the budget does not allow one comparison of this command, and which would; "" where it may."""
    earlier = _earlier(command)
    lap = None
    if earlier is not None:
        try:
            lap = lap_of(read_recording(str(earlier.path)), window_steps)
        except Unavailable:
            lap = None
    if earlier is not None and lap is not None:
        first = lap.start + LOOKED_SECONDS
        needed = first + 2 * LEAST_PAIRS * lap.seconds
        if budget >= needed:
            return ""
        known = say(
            "a run of this command takes {seconds} ({name})", seconds=duration(round(lap.seconds, 1)), name=earlier.name
        )
    else:
        if window_steps is not None:
            return ""  # how long these steps take is not known yet
        first = LOOKED_SECONDS
        needed = first + 2 * LEAST_PAIRS * WINDOW_SECONDS
        if budget >= needed:
            return ""
        known = say(
            "each run measures {window_seconds} of steps, after its start and its warm-up",
            window_seconds=duration(WINDOW_SECONDS),
        )
    enough = first + (needed - first) * LOOKS[1] / LEAST_PAIRS
    return say(
        "--budget {budget} is too short for one comparison: {known}, the first run and {pairs} pairs need "
        "{needed}; use --budget {enough}",
        budget=duration(budget),
        known=known,
        pairs=LEAST_PAIRS,
        needed=duration(float(math.ceil(needed))),
        enough=budget_flag(enough),
    )


def _earlier(command: Sequence[str]) -> KeptRecording | None:
    """The newest recording of this very command in this folder that ended well and is quick to read."""
    words, folder = mask_arguments(command), mask_text(os.getcwd())
    return next(
        (
            item
            for item in kept_recordings()
            if list(item.command) == list(words)
            and item.folder == folder
            and item.bytes < _LARGEST
            and not (item.died or item.running)
        ),
        None,
    )
