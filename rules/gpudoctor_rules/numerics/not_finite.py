"""What helps against values that are not finite, wherever they were first seen."""

import shlex
from collections.abc import Iterator

from gpudoctor.lang import say
from gpudoctor.model import Applicability, BadStepDetail, Code, Effort, Finding, Patient, Remedy
from gpudoctor.model.unavailable import optional
from gpudoctor_rules.numerics.edges import edge_edit
from gpudoctor_rules.numerics.rates import rate_edit

_ANOMALY = "https://pytorch.org/docs/stable/autograd.html#anomaly-detection"
_AMP = "https://pytorch.org/docs/stable/notes/amp_examples.html"


def remedies(code: Code, finding: Finding, patient: Patient) -> Iterator[Remedy]:
    """By the finding's `cause`: a class that a replay found, or what the recording alone suggests."""
    bad = finding.detail_of(BadStepDetail)
    cause = bad.cause
    if cause in ("rate", "exploding"):
        yield _rate(code, patient)
    elif cause in ("range", "half-overflow"):
        yield _half(code, bad)
    elif cause in ("operation", "domain", "overflow"):
        yield _edge(code, bad, patient)
    else:
        yield from _others(code, bad)
    if bad.replay is None:
        yield _replay(code, bad.step, patient)


def _where(bad: BadStepDetail) -> str:
    """` (train.py:41)`; empty where no line is known."""
    return (
        say(" ({bad_place_path}:{bad_place_line})", bad_place_path=bad.place.path, bad_place_line=bad.place.line)
        if bad.place is not None
        else ""
    )


def _remedy(code: Code, word: str, title: str, steps: tuple[str, ...], effort: Effort = Effort.SMALL_EDIT) -> Remedy:
    """One that a person must do."""
    return Remedy(
        id=f"{code}-{word}", title=title, steps=steps, applicability=Applicability.DISPLAY_ONLY, effort=effort
    )


def _rate(code: Code, patient: Patient) -> Remedy:
    value, edits = rate_edit(patient)
    lower = f"lr={value}" if edits else say("a third of the rate")
    return Remedy(
        id=f"{code}-rate",
        title=say("{lower}; warm-up", lower=lower) if edits else say("use a lower learning rate and a warm-up"),
        steps=(say("{lower}; warm-up over the first 1 % of the steps", lower=lower),),
        applicability=Applicability.UNSAFE,
        effort=Effort.SMALL_EDIT,
        edits=edits,
    )


def _half(code: Code, bad: BadStepDetail) -> Remedy:
    where = _where(bad)
    more = (
        say("or scale down what goes in{where}, or leave it out: torch.autocast('cuda', enabled=False)", where=where),
    )
    return Remedy(
        id=f"{code}-bf16",
        title=say("use bf16 instead of fp16, or a GradScaler") if not where else say("use bf16 instead of fp16"),
        steps=(
            "torch.autocast('cuda', dtype=torch.bfloat16)   # the range of float32; Ampere or later",
            *(more if where else ()),
            "before Ampere: scaler = torch.amp.GradScaler('cuda'), around backward and step",
        ),
        applicability=Applicability.UNSAFE,
        effort=Effort.SMALL_EDIT,
        references=(_AMP,) if where else (),
    )


def _edge(code: Code, bad: BadStepDetail, patient: Patient) -> Remedy:
    operation, where = bad.operation, _where(bad)
    edits = edge_edit(bad, patient) if where else ()
    title = say("keep the operation away from its edge")
    if where and operation:
        title = say("keep {operation} away from its edge{where}", operation=operation, where=where)
    return Remedy(
        id=f"{code}-epsilon",
        title=title,
        steps=_edge_steps(operation, bad.cause, bad.replay.phase if bad.replay is not None else ""),
        applicability=Applicability.UNSAFE,
        effort=Effort.ONE_LINE,
        edits=edits,
    )


def _edge_steps(operation: str, cause: str, phase: str) -> tuple[str, ...]:
    if cause == "overflow":
        return (
            say("torch.logsumexp, softplus or softmax instead of exp; x.clamp(max=80) before exp in float32"),
            say("scale first, then square or multiply: x / x.abs().max(); means instead of sums"),
        )
    if phase == "backward":
        return (
            say(
                "x.clamp_min(1e-12) before {operation}: the derivative is infinite at the edge, not the value",
                operation=operation,
            ),
            say("where() after it does not help, 0 times infinity is NaN: choose its input with where() instead"),
        )
    if operation in ("a division", "div", "Div"):
        return (
            say("a / (b + 1e-8), or b.clamp_min(1e-8) for a norm or a standard deviation"),
            say("torch.nn.functional.normalize and LayerNorm have such an eps"),
        )
    return (
        say("x.clamp_min(1e-6).sqrt(), torch.log(x + 1e-6), a / (b + 1e-6); log_softmax, logsumexp"),
        say("the derivative of sqrt is infinite at 0 even where its value is fine; where() does not help after it"),
    )


_PLAIN: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "poisoned-weights": (
        "weights", say("start from finite weights"),
        (say("torch.empty contains old memory: initialise it; look at what was loaded"),
         say("assert all(p.isfinite().all() for p in model.parameters())   # before the first step")),
    ),
}  # fmt: skip
"""Cause to the word of the remedy's id, its title and its steps."""


def _others(code: Code, bad: BadStepDetail) -> Iterator[Remedy]:
    if bad.cause == "bad-input":
        yield _data(code, bad)
    elif bad.cause == "optimizer":
        half = bad.replay is not None and bad.replay.dtype == "float16"
        why = (
            say("eps=1e-8 is 0 in float16: keep the weights in float32 and let autocast do the rest")
            if half
            else say("eps=1e-8: Adam divides by the root of a mean that is 0 where the gradient always was")
        )
        title = say("keep the weights in float32") if half else say("give the optimizer an eps above 0")
        yield _remedy(code, "eps", title, (why,), Effort.SETTING)
    elif bad.cause in _PLAIN:
        word, title, steps = _PLAIN[bad.cause]
        yield _remedy(code, word, title + _where(bad), steps)


def _data(code: Code, bad: BadStepDetail) -> Remedy:
    title = say("mend or leave out {which}", which=say("the data"))
    look = say("look at{where}", where=_where(bad))
    check = say("assert torch.isfinite(x).all(), index   # in __getitem__: the first bad item names itself")
    return _remedy(code, "data", title, (look, check))


def _replay(code: Code, step: int, patient: Patient) -> Remedy:
    recording = optional(lambda: patient.recorded_run)
    return Remedy(
        id=f"{code}-replay",
        title=say("replay step {step} to see the operation: gpudoctor verify", step=step),
        steps=(
            say(
                "gpudoctor verify -- {command}   # runs up to that step again, looks at each of its operations",
                command=shlex.join(recording.command) if recording and recording.command else "COMMAND",
            ),
            "with torch.autograd.detect_anomaly():   # by hand: its error names the forward operation",
        ),
        applicability=Applicability.DISPLAY_ONLY,
        effort=Effort.COMMAND,
        references=(_ANOMALY,),
    )
