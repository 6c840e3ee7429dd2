"""The NaN replay: the bad step with every operation watched, once more with more digits, and its cause."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

from gpudoctor.analysis.run.curves import explosion, loss_curve, norm_curve
from gpudoctor.lang import say
from gpudoctor.model import Ranked, Trait
from gpudoctor.model.proof import BadStepDetail, Cause, Replay
from gpudoctor.model.signs.recording import Process, Recording
from gpudoctor.text import duration
from gpudoctor.trial.replay_words import Story
from gpudoctor.trial.trial_runner import Arm, TrialRunner

# From the probe's `replay` record to a class of cause.

GROWN = 10.0
"""Growth of weights or gradients from which on the rate is to blame (the threshold of NUM003)."""
_LOSS_GROWN = 100.0
"""Growth of the loss above its lowest before the bad step, likewise: single batches vary."""
_EMPTY = {"empty", "masked", "spread"}


def grown(record: Mapping[str, Any], recording: Recording, step: int) -> str:
    """What had grown before the bad step, as a clause; empty where nothing had."""
    weights = record.get("weights") or []
    if len(weights) == 2 and weights[0] > 0 and weights[1] >= GROWN * weights[0]:
        times = weights[1] / weights[0]
        return say("the largest weight had grown {times:.3g} times before", times=times)
    for process in recording.ranks:
        found = explosion(norm_curve(process))
        if found is not None and found[0] >= GROWN:
            return say("the norm of the gradients had grown {found:.3g} times before", found=found[0])
        curve = loss_curve(process)
        before = [abs(value) for index, value in zip(curve.steps, curve.values, strict=True) if index < step]
        if len(before) >= 3 and before[-1] >= _LOSS_GROWN * max(median(before[: len(before) // 2 + 1]), 1e-9):
            return say("the loss had grown to {before:.3g} before", before=before[-1])
    return ""


def cause_of(record: Mapping[str, Any], growth: str) -> Cause:
    """The class, before more digits were tried."""
    origin = record.get("origin")
    if record.get("found") == "poisoned" or not origin:
        return Cause.UNKNOWN
    kind = origin.get("kind")
    if kind in ("weights", "gradient", "buffer") or (kind in ("constant", "data") and origin.get("early")):
        return Cause.POISONED
    if kind in ("batch", "data"):
        return Cause.BAD_INPUT
    if kind == "peer":
        return Cause.PEER
    if kind == "constant":
        return Cause.CONSTANT
    return _of_operation(origin, growth)


def _of_operation(origin: Mapping[str, Any], growth: str) -> Cause:
    if origin.get("edge") in _EMPTY:
        return Cause.EMPTY
    if growth:
        return Cause.EXPLODING
    if origin.get("phase") == "optimizer":
        return Cause.OPTIMIZER
    if origin.get("wide") == "finite" or origin.get("edge") == "overflow":
        return Cause.HALF_OVERFLOW if origin.get("dtype") == "float16" else Cause.OVERFLOW
    return Cause.DOMAIN


# The run up to that step is as ever (same seeds); where its weights had gone bad earlier than anybody saw, the
# step in which they did is replayed instead. What it costs is bounded by a share of the budget.

_RUNS = 3
"""Replays at most: each looks at an earlier step than the one before."""
_SLOWER, _SPARE = 2.0, 20.0
"""A replay may take so many times the seconds until the bad step, and so many more."""
_PRECISE = (Cause.HALF_OVERFLOW, Cause.OVERFLOW, Cause.DOMAIN, Cause.EXPLODING, Cause.EMPTY)
"""Causes that a step with more digits says more about."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BadStep:
    """What is to be replayed."""

    code: str
    step: int
    seconds: float
    """From the start of the command to the end of that step."""


def bad_step(findings: Sequence[Ranked], recording: Recording) -> BadStep | None:
    """The first bad step that the findings tell of; None where they tell of none."""
    found = [item.finding for item in findings if Trait.FIRST_BAD_STEP in item.finding.traits]
    steps = [(item.detail.step, item.code) for item in found if isinstance(item.detail, BadStepDetail)]
    if not steps:
        return None
    step, code = min(steps)
    times = [_reached(process, step) for process in recording.ranks if len(process.steps)]
    return BadStep(code=code, step=step, seconds=max(times, default=0.0))


def replay(
    bench: TrialRunner, bad: BadStep, recording: Recording, seconds: float, doing: Callable[[str], None]
) -> Replay:
    """Replay it within so many seconds."""
    began = time.monotonic()
    nothing = Replay(code=bad.code, step=bad.step, reproduced=False)
    limit = _SPARE + _SLOWER * bad.seconds
    if limit > seconds:
        need = say(
            "step {step} comes after {seconds}: a replay needs a longer --budget",
            step=bad.step,
            seconds=duration(bad.seconds),
        )
        return replace(nothing, reason=need)
    doing(say("replay of step {step}", step=bad.step))
    found = _watched(bench, bad, limit, began + seconds)
    if isinstance(found, str):
        return replace(nothing, reason=found, seconds=time.monotonic() - began)
    process, record = found
    growth = grown(record, recording, bad.step)
    story = Story(
        record=record, recording=recording, rank=process.rank, cause=cause_of(record, growth), growth=growth
    )
    made = story.replay(bad.code, bad.step)
    if made.cause in _PRECISE and time.monotonic() + limit < began + seconds:
        step = made.began if made.began is not None else made.step
        doing(say("step {step} with more digits", step=step))
        made = _with_digits(bench, story, step, limit).replay(bad.code, bad.step)
    return replace(made, seconds=time.monotonic() - began)


def _watched(
    bench: TrialRunner, bad: BadStep, limit: float, deadline: float
) -> "tuple[Process, Mapping[str, Any]] | str":
    """The record of the replay that saw the root of it, or why there is none."""
    step, last = bad.step, None
    for _ in range(_RUNS):
        found = _record(bench, {"step": step}, step, limit)
        if isinstance(found, str):
            return last or found
        last = found
        earlier = _earlier(found[1])
        if earlier is None or earlier >= step or time.monotonic() + limit > deadline:
            break
        step = earlier
    return last or ""


def _earlier(record: Mapping[str, Any]) -> int | None:
    """The step in which weights went bad before the watch began; None where they did not."""
    if record.get("found") == "poisoned":
        return int(record.get("step") or 0)
    origin = record.get("origin") or {}
    begin = int(record.get("begin") or 0)
    if origin.get("kind") in ("weights", "gradient") and begin > 0:
        return begin - 1
    return None


def _record(
    bench: TrialRunner, table: Mapping[str, Any], step: int, limit: float
) -> "tuple[Process, Mapping[str, Any]] | str":
    """One run; of several ranks the one that saw where it came from."""
    arm = Arm(name="replay", overrides={"replay.nan": dict(table), "profiler.enabled": False})
    lap = bench.look(arm, steps=step + 1, seconds=limit)
    told = [(process, record.fields) for process in lap.recording.ranks for record in process.of("replay")]
    if not told:
        return lap.problem or say("the replay did not reach that step")
    return min(told, key=_place)


def _place(told: "tuple[Process, Mapping[str, Any]]") -> tuple[int, int]:
    """The best witness first: one with an origin that is its own."""
    process, record = told
    origin: Mapping[str, Any] = record.get("origin") or {}
    borrowed = origin.get("kind") in ("peer", "data", "gradient")
    return (1 if borrowed else 0) if origin else 2, process.rank


def _with_digits(bench: TrialRunner, story: Story, step: int, limit: float) -> Story:
    """The step again in float32 where half precision failed, else in float64."""
    origin: Mapping[str, Any] = story.record.get("origin") or {}
    half = origin.get("dtype") in ("float16", "bfloat16")
    precision = "float32" if half else "float64"
    found = _record(bench, {"step": step, "precision": precision}, step, limit)
    if isinstance(found, str):
        return story
    wide = found[1]
    if wide.get("losses") is None:
        return story
    finite = bool(wide.get("losses")) and bool(wide.get("gradients"))
    rounded = story.cause is Cause.DOMAIN and finite
    return replace(story, precision=precision, finite=finite, cause=Cause.ROUNDING if rounded else story.cause)


def _reached(process: Process, step: int) -> float:
    """Seconds from the process's start to the end of a step."""
    table = process.steps
    for index, t in zip(table.column("index"), table.column("t"), strict=False):
        if index >= step:
            return float(t)
    times = table.column("t")
    return float(times[-1]) if len(times) else 0.0
