"""Starts a training program under `program.py` and reads what its ranks told."""

import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from gpudoctor.estimate.measure import program
from gpudoctor.estimate.measure.launch import STEPS, read_events, surroundings
from gpudoctor.estimate.measure.result import JobMeasurement

_TICK = 0.05
_LONGER = "a longer --budget gives it more"
_LOOK = 4000
"""Characters of standard error that are kept for what a dying program says last."""


def measure_program(
    command: Sequence[str], script: Path, kind: str, *, folder: Path, limit: float, prefix: Sequence[str] = (),
    environment: Mapping[str, str] | None = None, prepare: Callable[[], None] | None = None,
    watch: Callable[[float], None] = lambda _seconds: None,
) -> JobMeasurement:  # fmt: skip
    """Run `command` for a few steps with `script` in it under the meter; the fullest rank's memory by instant.

    `folder` takes the events; `limit` is in seconds; `prefix` are words before the command and `environment`
    variables that keep its writes away from the user's files; `prepare` is called in the child before it
    becomes the command; `watch` is told the seconds often.
    """
    events = folder.absolute() / "events"
    words = list(command)
    at = words.index(str(script))
    words[at:at] = [str(program.__file__), str(events), str(STEPS)]
    started = time.monotonic()
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace", dir=folder) as said:
        child = subprocess.Popen(
            [*prefix, *words], stdin=subprocess.DEVNULL, stdout=said, stderr=said, cwd=folder,
            env={**surroundings(kind), **(environment or {})}, start_new_session=True, preexec_fn=prepare,
        )  # fmt: skip
        try:
            code = _wait(child, limit, watch)
        finally:
            _end(child)
        said.seek(0)
        last = said.read()[-_LOOK:]
    seconds = time.monotonic() - started
    told = [path.read_text("utf-8", "replace") for path in sorted(folder.glob("events.*"))] or [""]
    return max((read_events(text, code, last, seconds, limit, _LONGER) for text in told), key=_fullness)


def _wait(child: "subprocess.Popen[bytes]", limit: float, watch: Callable[[float], None]) -> int | None:
    """Its exit code; None where its time was up."""
    begun = time.monotonic()
    while child.poll() is None:
        passed = time.monotonic() - begun
        if passed > limit:
            return None
        watch(passed)
        time.sleep(_TICK)
    return child.returncode


def _end(child: "subprocess.Popen[bytes]") -> None:
    """End it and what it started: launchers leave their ranks behind when they are killed alone."""
    if hasattr(os, "killpg"):
        with suppress(OSError):
            os.killpg(child.pid, signal.SIGKILL)
    elif child.poll() is None:  # pragma: no cover - Windows
        child.kill()
    child.wait()


def _fullness(found: JobMeasurement) -> tuple[int, int]:
    return len(found.steps), found.most or 0
