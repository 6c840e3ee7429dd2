"""Starts the child that measures, a model or a training program, watches the clock, and reads its output."""

import json
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from gpudoctor.estimate.measure import measured_program
from gpudoctor.estimate.measure.measurement import JobMeasurement, Machine, MeasuredStep, MeasureEnd
from gpudoctor.lang import say
from gpudoctor.text import duration

STEPS = 3
"""The first step has no optimizer state before it; the second shows the steady state; the third confirms it."""
LIMIT = 900.0
"""Seconds that a measurement may take unless said otherwise."""
HOST_BASE = 1 << 30
"""Host memory of the child beside tensors: the interpreter, torch, transformers, the profile."""


def surroundings(kind: str) -> dict[str, str]:
    """A child's environment: quiet libraries, no network; on the CPU no card."""
    variables = {
        **os.environ, "KINETO_LOG_LEVEL": "5", "HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error",
        "TOKENIZERS_PARALLELISM": "false", "PYTHONWARNINGS": "ignore",
    }  # fmt: skip
    return variables | ({"CUDA_VISIBLE_DEVICES": ""} if kind == "cpu" else {})


def read_events(told: str, code: int | None, errors: str, seconds: float, limit: float, longer: str) -> JobMeasurement:
    """A measurement from the child's lines; a line that was cut off is passed by. `longer` says what to do
    about the limit."""
    events = [event for event in map(_event, told.splitlines()) if event]

    def all_of(name: str) -> list[dict[str, Any]]:
        return [event for event in events if event["event"] == name]

    def last(name: str) -> dict[str, Any]:
        return next(reversed(all_of(name)), {})

    steps = tuple(
        MeasuredStep(**{key: each[key] for key in ("instants", "peak", "static", "scratch")}) for each in all_of("step")
    )
    ending, said = _ending(last("ending"), code, errors, say("{limit}; {longer}", limit=duration(limit), longer=longer))
    card, load = last("card"), last("load")
    seen = [step.peak for step in steps] + [
        each["most"] for each in (load, last("ending")) if each.get("most") is not None
    ]
    return JobMeasurement(
        machine=_machine(last("machine"), card), ending=ending, said=said,
        reached=last("reached").get("what", "start"), most=max(seen, default=None), load=load.get("bytes"),
        steps=steps, reserved=card.get("reserved"), used=card.get("used"), used_how=card.get("used_how", ""),
        reserved_then=card.get("reserved_then"), workspace=card.get("workspace"), seconds=seconds,
    )  # fmt: skip


def _event(line: str) -> dict[str, Any]:
    try:
        event = json.loads(line)
    except ValueError:
        return {}
    return event if isinstance(event, dict) and "event" in event else {}


def _machine(said: dict[str, Any], card: dict[str, Any]) -> Machine | None:
    if not said:
        return None
    versions = dict(said["versions"])
    if card.get("driver"):
        versions["driver"] = card["driver"]
    return Machine(
        kind=said["kind"], name=said["name"], bytes=said["bytes"], gpus=said["gpus"], versions=versions,
        capability=tuple(said["capability"]) if said["capability"] else None,
    )  # fmt: skip


def _ending(said: dict[str, Any], code: int | None, errors: str, limit: str) -> tuple[MeasureEnd, str]:
    """How it ended, in one sentence: as the child told, or by its exit code."""
    if said:
        return MeasureEnd(said["ending"]), str(said["said"])
    if code is None:
        return MeasureEnd.TIME_LIMIT, say("stopped at its limit of {limit}", limit=limit)
    if code == -signal.SIGKILL:
        return MeasureEnd.OUT_OF_MEMORY, "ended by signal 9, which the system sends when host memory runs out"
    lines = [line for line in errors.splitlines() if line.strip()]
    what = say("signal {code}", code=-code) if code < 0 else say("exit code {code}", code=code)
    return MeasureEnd.FAILED, say(
        "ended with {what}: {lines}", what=what, lines=lines[-1][:300] if lines else say("nothing on standard error")
    )


# Starts a training program under `measured_program.py` and reads what its ranks told.

_TICK = 0.05
_LARGER_BUDGET = "a longer --budget gives it more"
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
    words[at:at] = [str(measured_program.__file__), str(events), str(STEPS)]
    started = time.monotonic()
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace", dir=folder) as said:
        child = subprocess.Popen(
            [*prefix, *words], stdin=subprocess.DEVNULL, stdout=said, stderr=said, cwd=folder,
            env={**surroundings(kind), **(environment or {})}, start_new_session=True, preexec_fn=prepare,
        )  # fmt: skip
        try:
            code = _wait(child, limit, watch)
        finally:
            _end_group(child)
        said.seek(0)
        last = said.read()[-_LOOK:]
    seconds = time.monotonic() - started
    told = [path.read_text("utf-8", "replace") for path in sorted(folder.glob("events.*"))] or [""]
    return max(
        (read_events(text, code, last, seconds, limit, _LARGER_BUDGET) for text in told),
        key=lambda found: (len(found.steps), found.most or 0),
    )


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


def _end_group(child: "subprocess.Popen[bytes]") -> None:
    """End it and what it started: launchers leave their ranks behind when they are killed alone."""
    if hasattr(os, "killpg"):
        with suppress(OSError):
            os.killpg(child.pid, signal.SIGKILL)
    elif child.poll() is None:  # pragma: no cover - Windows
        child.kill()
    child.wait()
