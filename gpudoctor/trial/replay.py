"""The bad step once more, under a look at each operation: the first result that is not finite, and its cause."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gpudoctor.analysis.run.line_costs import relative
from gpudoctor.lang import say
from gpudoctor.model import Finding, Measurement, Ranked, SourceSpan, Trait
from gpudoctor.model.proof import BadStepDetail, Cause, Replay
from gpudoctor.model.records import frozen, replace
from gpudoctor.model.signs.recording import Process, Recording
from gpudoctor.text import duration
from gpudoctor.trial.trial_runner import Arm, TrialRunner

_SLOWER, _SPARE = 2.0, 20.0
"""A replay may take so many times the seconds until the bad step, and so many more."""


@frozen
class BadStep:
    """What is to be replayed."""

    code: str
    step: int
    seconds: float
    """From the start of the command to the end of that step."""
    grew: bool
    """Whether gradients or loss had grown before, by its finding."""


def bad_step(findings: Sequence[Ranked], recording: Recording) -> BadStep | None:
    """The first bad step that the findings tell of; None where they tell of none."""
    found = [item.finding for item in findings if Trait.FIRST_BAD_STEP in item.finding.traits]
    steps = [
        (item.detail.step, str(item.code), item.detail.suspected == "rate")
        for item in found
        if isinstance(item.detail, BadStepDetail)
    ]
    if not steps:
        return None
    step, code, grew = min(steps)
    times = [_reached(process, step) for process in recording.ranks if len(process.steps)]
    return BadStep(code=code, step=step, seconds=max(times, default=0.0), grew=grew)


def replay(
    bench: TrialRunner, bad: BadStep, recording: Recording, seconds: float, doing: Callable[[str], None]
) -> Replay:
    """Replay it within so many seconds."""
    began = time.monotonic()
    nothing = Replay(code=bad.code, step=bad.step, reproduced=False)
    limit = _SPARE + _SLOWER * bad.seconds
    if limit > seconds:
        late = duration(bad.seconds)
        need = say("step {step} comes after {seconds}: a replay needs a longer --budget", step=bad.step, seconds=late)
        return replace(nothing, reason=need)
    doing(say("replay of step {step}", step=bad.step))
    arm = Arm(name="replay", overrides={"replay.nan": {"step": bad.step}})
    lap = bench.look(arm, steps=bad.step + 1, seconds=limit)
    spent = time.monotonic() - began
    told = [(process.rank, record.fields) for process in lap.recording.ranks for record in process.of("replay")]
    if not told:
        reason = lap.problem or say("the replay did not reach that step")
        return replace(nothing, reason=reason, seconds=spent)
    rank, record = min(told, key=lambda item: ("origin" not in item[1], item[0]))
    origin: Mapping[str, Any] = record.get("origin") or {}
    if not origin:
        broken = record.get("broken")
        reason = (
            say("its operations could not be watched ({broken})", broken=broken)
            if broken
            else say("step {step} was finite this time: the seeds do not determine its cause", step=bad.step)
        )
        return replace(nothing, reason=reason, seconds=spent)
    cause = cause_of(origin, bad.grew)
    seen = {name: str(origin.get(name) or "") for name in ("operation", "operator", "phase", "value", "dtype")}
    return Replay(
        code=bad.code, step=bad.step, reproduced=True, cause=cause, words=words(origin, cause), rank=rank, **seen,
        names=(str(origin["name"]),) if origin.get("name") else (), place=_span(origin, recording), seconds=spent,
    )  # fmt: skip


def cause_of(origin: Mapping[str, Any], growth: bool) -> Cause:
    """The class of cause of what was seen first."""
    if origin.get("kind") == "weights":
        return Cause.POISONED
    if origin.get("kind") == "data":
        return Cause.BAD_INPUT
    if growth:
        return Cause.EXPLODING
    if origin.get("phase") == "optimizer":
        return Cause.OPTIMIZER
    if origin.get("value") == "inf" and origin.get("dtype") == "float16":
        return Cause.HALF_OVERFLOW
    grows = str(origin.get("operation")).lower() in {"exp", "expm1", "exp2", "sinh", "cosh"}
    return Cause.OVERFLOW if origin.get("value") == "inf" and grows else Cause.DOMAIN


def words(origin: Mapping[str, Any], cause: Cause) -> str:
    """What happened, in one sentence."""
    value = "NaN" if origin.get("value") == "nan" else "inf"
    at = (
        say(" ({short})", short=f"{str(origin['path']).rpartition('/')[2]}:{origin['line']}")
        if origin.get("path")
        else ""
    )
    if origin.get("kind") == "weights":
        return say("The weight {name} contained NaN before that step.", name=origin.get("name"))
    if origin.get("kind") == "data":
        return say("NaN came in with data, not from an operation of the step{at}.", at=at)
    told = {"value": value, "operation": origin.get("operation"), "at": at}
    if origin.get("phase") == "backward":
        made = say("In the backward pass the derivative of {operation} gave {value} first{at}.", **told)
    elif origin.get("phase") == "optimizer":
        made = say("In the optimizer's step {operation} gave {value} first{at}.", **told)
    else:
        made = say("In the forward pass or the loss {operation} gave {value} first{at}.", **told)
    if cause is Cause.EXPLODING:
        return say("{made} Gradients or loss had grown before.", made=made)
    return made


def explained(finding: Finding, replayed: Replay) -> Finding:
    """The finding with the replay's evidence in front; where it showed nothing, with the reason why."""
    if not replayed.reproduced:
        message, reason = finding.message.rstrip("."), replayed.reason
        shown = say("{message}. A replay shows no more: {reason}.", message=message, reason=reason)
        return replace(finding, message=shown)
    detail, place = finding.detail, replayed.place
    kept = [item for item in finding.evidence if place is None or not isinstance(item, SourceSpan)]
    seen = [Measurement("cause_class", replayed.cause.value if replayed.cause else "", "")]
    seen += [Measurement("operation", replayed.operator, "")] if replayed.operator else []
    head = finding.message.partition(";")[0].rstrip(".")
    return replace(
        finding,
        message=say("{head}. {words}", head=head, words=replayed.words),
        evidence=(*([place] if place is not None else []), *seen, *kept),
        detail=replace(detail, replay=replayed) if isinstance(detail, BadStepDetail) else detail,
    )


def _span(origin: Mapping[str, Any], recording: Recording) -> SourceSpan | None:
    if not origin.get("path"):
        return None
    path = relative(recording, str(origin["path"]))
    return SourceSpan(path=path, line=int(origin["line"]), text=str(origin.get("text") or ""))


def _reached(process: Process, step: int) -> float:
    """Seconds from the process's start to the end of a step."""
    table = process.steps
    for index, t in zip(table.column("index"), table.column("t"), strict=False):
        if index >= step:
            return float(t)
    times = table.column("t")
    return float(times[-1]) if len(times) else 0.0
