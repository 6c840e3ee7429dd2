"""Rules on the topic: numerics."""

import ast
import shlex
from collections.abc import Iterator

from gpudoctor.analysis import of_run
from gpudoctor.analysis.source.declared_settings import add_keyword, from_keyword
from gpudoctor.analysis.source.syntax import keyword_value
from gpudoctor.analysis.source.syntax_edits import replace_node
from gpudoctor.analysis.source.training_arguments import training_arguments
from gpudoctor.analysis.workload import optional, scripts_given
from gpudoctor.lang import say
from gpudoctor.model import Applicability, BadStepDetail, Code, Edit, Effort, Finding, Patient, Remedy, answers
from gpudoctor.model.evidence import SourceSpan
from gpudoctor_checks.numerics.fp16_unsafe import Fp16UnsafeDetail
from gpudoctor_checks.numerics.learning_rate_out_of_band import LearningRateOutOfBandDetail
from gpudoctor_rules.remedies import call_at, config_edit, keyword_edit, remedy, script_of

_ANOMALY = "https://pytorch.org/docs/stable/autograd.html#anomaly-detection"
_AMP = "https://pytorch.org/docs/stable/notes/amp_examples.html"


@answers("NUM001", "NUM002")
def not_finite(finding: Finding, patient: Patient) -> Iterator[Remedy]:
    """By the finding's `cause`: a class that a replay found, or what the recording alone suggests."""
    bad = finding.detail_of(BadStepDetail)
    cause, code = bad.cause, finding.code
    if cause in ("rate", "exploding"):
        yield _rate(code, patient)
    elif cause in ("range", "half-overflow"):
        yield _half(code, bad)
    elif cause in ("operation", "domain", "overflow"):
        yield _edge(code, bad)
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


def _by_hand(code: Code, word: str, title: str, steps: tuple[str, ...], effort: Effort = Effort.SMALL_EDIT) -> Remedy:
    """One that a person must do."""
    return remedy(f"{code}-{word}", title, *steps, effort=effort)


def _rate(code: Code, patient: Patient) -> Remedy:
    value, edits = _rate_edit(patient)
    lower = f"lr={value}" if edits else say("a third of the rate")
    return remedy(
        f"{code}-rate",
        say("{lower}; warm-up", lower=lower) if edits else say("use a lower learning rate and a warm-up"),
        say("{lower}; warm-up over the first 1 % of the steps", lower=lower),
        applicability=Applicability.UNSAFE,
        edits=edits,
    )


def _half(code: Code, bad: BadStepDetail) -> Remedy:
    where = _where(bad)
    more = (
        say("or scale down what goes in{where}, or leave it out: torch.autocast('cuda', enabled=False)", where=where),
    )
    return remedy(
        f"{code}-bf16",
        say("use bf16 instead of fp16, or a GradScaler") if not where else say("use bf16 instead of fp16"),
        "torch.autocast('cuda', dtype=torch.bfloat16)   # the range of float32; Ampere or later",
        *(more if where else ()),
        "before Ampere: scaler = torch.amp.GradScaler('cuda'), around backward and step",
        applicability=Applicability.UNSAFE,
        references=(_AMP,) if where else (),
    )


def _edge(code: Code, bad: BadStepDetail) -> Remedy:
    operation, where = bad.operation, _where(bad)
    title = say("keep the operation away from its edge")
    if where and operation:
        title = say("keep {operation} away from its edge{where}", operation=operation, where=where)
    return remedy(
        f"{code}-epsilon",
        title,
        *_edge_steps(operation, bad.cause, bad.replay.phase if bad.replay is not None else ""),
        applicability=Applicability.UNSAFE,
        effort=Effort.ONE_LINE,
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
        yield _by_hand(code, "eps", title, (why,), Effort.SETTING)
    elif bad.cause in _PLAIN:
        word, title, steps = _PLAIN[bad.cause]
        yield _by_hand(code, word, title + _where(bad), steps)


def _data(code: Code, bad: BadStepDetail) -> Remedy:
    title = say("mend or leave out {which}", which=say("the data"))
    look = say("look at{where}", where=_where(bad))
    check = say("assert torch.isfinite(x).all(), index   # in __getitem__: the first bad item names itself")
    return _by_hand(code, "data", title, (look, check))


def _replay(code: Code, step: int, patient: Patient) -> Remedy:
    recording = optional(lambda: patient.recorded_run)
    return remedy(
        f"{code}-replay",
        say("replay step {step} to see the operation: gpudoctor verify", step=step),
        say(
            "gpudoctor verify -- {command}   # runs up to that step again, looks at each of its operations",
            command=shlex.join(recording.command) if recording and recording.command else "COMMAND",
        ),
        "with torch.autograd.detect_anomaly():   # by hand: its error names the forward operation",
        effort=Effort.COMMAND,
        references=(_ANOMALY,),
    )


_LOWER = 10.0


def _rate_edit(patient: Patient) -> tuple[str, tuple[Edit, ...]]:
    """A tenth of the rate, and the edit that sets it; no edit where several or no optimizers have a number."""
    found = []
    for script in scripts_given(patient).scripts:
        for call in script.calls:
            if not call.name.startswith("torch.optim.") or "lr_scheduler" in call.name:
                continue
            for keyword in call.node.keywords:
                value = keyword.value
                if keyword.arg == "lr" and isinstance(value, ast.Constant) and isinstance(value.value, float | int):
                    found.append((script, value, float(value.value)))
    if len(found) != 1 or found[0][2] <= 0:
        return "", ()
    script, node, rate = found[0]
    lower = f"{rate / _LOWER:.3g}"
    return lower, (replace_node(script, node, lower),)


_AMPERE = (8, 0)
"""Compute capability from which cards have bf16."""


@answers("NUM006")
def fp16_unsafe(finding: Finding, patient: Patient) -> Iterator[Remedy]:
    """bf16 needs no scaling; before Ampere only fp16 with a GradScaler is fast."""
    cure = finding.detail_of(Fp16UnsafeDetail).cure
    if cure == "bf16":
        yield _bf16(finding, patient)
    elif cure == "collapsed":
        missing = _has_bf16(patient) is False
        title = say("train in float32: this card has no bf16") if missing else say("use bf16 instead of fp16")
        yield _half_remedy("bf16", title, (say("torch.autocast('cuda', dtype=torch.bfloat16), or bf16=True"),), ())
    elif cure == "precision":
        value = "bf16-true" if "16-true" in finding.message else "bf16"
        yield _half_remedy("precision", f"precision: {value}", (value,), config_edit(finding, patient, value))
    elif cure == "autocast" and _has_bf16(patient) is not False:
        yield _half_remedy(
            "bf16",
            "dtype=torch.bfloat16",
            (say("torch.autocast('cuda', dtype=torch.bfloat16)   # Ampere or later"),),
            _autocast_edits(finding, patient),
        )


def _bf16(finding: Finding, patient: Patient) -> Remedy:
    missing = _has_bf16(patient) is False
    edits = () if missing else _bf16_edits(finding, patient)
    return _half_remedy(
        "bf16",
        say("train in float32: this card has no bf16") if missing else say("use bf16 instead of fp16"),
        ("fp16=False" if missing else "bf16=True, fp16=False",),
        edits,
    )


def _has_bf16(patient: Patient) -> bool | None:
    """Whether every card has bf16; None without a card to ask."""
    cards = optional(lambda: patient.gpus)
    found = [card.compute_capability for card in cards or ()]
    known = [item for item in found if isinstance(item, tuple)]
    return all(item >= _AMPERE for item in known) if known else None


def _half_remedy(name: str, title: str, steps: tuple[str, ...], edits: tuple[Edit, ...]) -> Remedy:
    return remedy(f"NUM006-{name}", title, *steps, effort=Effort.SETTING, edits=edits)


def _autocast_edits(finding: Finding, patient: Patient) -> tuple[Edit, ...]:
    found = call_at(patient, finding.span)
    if found is None:
        return ()
    script, call = found
    dtype = from_keyword(script, call, "dtype")
    if dtype is not None:
        edit = dtype.edit("bfloat16", python=f"{dtype.node_text.rpartition('.')[0] or 'torch'}.bfloat16")
        return () if edit is None else (edit,)
    if len(call.node.args) > 1:
        return ()
    if call.node.args or call.node.keywords:
        added = add_keyword(script, call, "dtype", "torch.bfloat16")
        return () if added is None else (added,)
    span = call.span
    return (keyword_edit(span, set=(("dtype", "torch.bfloat16"),)),)


def _bf16_edits(finding: Finding, patient: Patient) -> tuple[Edit, ...]:
    """fp16 becomes bf16; where bf16 is written too, both values change."""
    place = finding.evidence[0]
    for setup in training_arguments(patient):
        for item in setup.items.values():
            if item.place != place:
                continue
            other = setup.get("bf16")
            if other is None:
                return item.rename("bf16")
            both = (item.edit("false", python="False"), other.edit("true", python="True"))
            return tuple(edit for edit in both if edit is not None)
    return ()


_MIDDLES = {
    "adam": ("1e-3", say("from scratch 1e-4 to 1e-3")),
    "sgd": ("0.1", say("from scratch 0.01 to 0.1")),
    "low": ("1e-4", say("from scratch 1e-4 to 1e-3, full fine-tuning 1e-5 to 5e-5, LoRA 1e-4 to 3e-4")),
}
"""What was found, the rate to try first, and the band."""


@answers("NUM009")
def learning_rate_out_of_band(finding: Finding, patient: Patient) -> Iterator[Remedy]:
    """Start in the middle of the band; the best rate is found by trying."""
    cure = finding.detail_of(LearningRateOutOfBandDetail).cure
    if cure == "spent":
        return
    value, band = _MIDDLES[cure]
    trainer = of_run.trainer_arguments(patient)
    key = "lr" if trainer is None else "learning_rate"
    edits = _middle_edits(finding.span if trainer is None else trainer.call.span, value, patient)
    yield remedy(
        f"NUM009-{cure}",
        f"{key}={value}",
        say("{key}={value}   # {band}", key=key, value=value, band=band),
        effort=Effort.SETTING,
        sets=(("learning_rate", value),),
        edits=edits,
    )


def _middle_edits(place: SourceSpan | None, value: str, patient: Patient) -> tuple[Edit, ...]:
    """The rate of the optimizer that is made at the place, where it is written there as a number."""
    script = script_of(patient, place)
    for call in script.calls if script is not None else ():
        if script is None or place is None or call.span.line != place.line:
            continue
        for node in (*(keyword_value(call.node, key) for key in ("lr", "learning_rate")), *call.node.args[1:2]):
            if isinstance(node, ast.Constant) and isinstance(node.value, float):
                return (replace_node(script, node, value),)
    return ()
