"""Rules on the topic: numerics."""

import ast
import shlex
from collections.abc import Iterator

from gpudoctor.analysis import of_run
from gpudoctor.analysis.source.syntax import keyword_value
from gpudoctor.analysis.source.syntax_edits import replace_node
from gpudoctor.analysis.source.training_arguments import training_arguments
from gpudoctor.analysis.workload import optional
from gpudoctor.lang import say
from gpudoctor.model import Applicability, BadStepDetail, Edit, Effort, Facts, Finding, Patient, Remedy, answers
from gpudoctor.model.evidence import SourceSpan
from gpudoctor.model.job_devices import lowest_capability
from gpudoctor_rules.remedies import remedy, script_of

_ANOMALY = "https://pytorch.org/docs/stable/autograd.html#anomaly-detection"


_EDGE = (
    "epsilon",
    say("keep the operation away from its edge"),
    (
        say("x.clamp_min(1e-6).sqrt(), torch.log(x + 1e-6), a / (b + 1e-6); log_softmax, logsumexp"),
        say("the derivative of sqrt is infinite at 0 even where its value is fine; where() does not help after it"),
    ),
)
_RATE = (
    "rate",
    say("use a lower learning rate and a warm-up"),
    (say("a third of the rate; warm-up over the first 1 % of the steps"),),
)
_BF16 = (
    "bf16",
    say("use bf16 instead of fp16, or a GradScaler"),
    (
        "torch.autocast('cuda', dtype=torch.bfloat16)   # the range of float32; Ampere or later",
        "before Ampere: scaler = torch.amp.GradScaler('cuda'), around backward and step",
    ),
)
_CURES: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "rate": _RATE,
    "exploding": _RATE,
    "range": _BF16,
    "half-overflow": _BF16,
    "operation": _EDGE,
    "domain": _EDGE,
    "overflow": (
        "epsilon",
        say("keep the operation away from its edge"),
        (say("torch.logsumexp, softplus or softmax instead of exp; x.clamp(max=80) before exp in float32"),),
    ),
    "bad-input": (
        "data",
        say("mend or leave out the data"),
        (say("assert torch.isfinite(x).all(), index   # in __getitem__: the first bad item names itself"),),
    ),
    "optimizer": (
        "eps",
        say("keep the weights in float32, and give the optimizer an eps above 0"),
        (say("eps=1e-8 is 0 in float16. Adam then divides by 0 where the gradient always was 0"),),
    ),
    "poisoned-weights": (
        "weights",
        say("start from finite weights"),
        (say("torch.empty contains old memory: initialise it; look at what was loaded"),),
    ),
}
"""Cause to the word of the remedy's id, its title and its steps."""


@answers("NUM001", "NUM002")
def not_finite(finding: Finding, patient: Patient) -> Iterator[Remedy]:
    """By the finding's `cause`: a class that a replay found, or what the recording alone suggests."""
    bad = finding.detail_of(BadStepDetail)
    if bad.cause in _CURES:
        word, title, steps = _CURES[bad.cause]
        where = say(" ({path}:{line})", path=bad.place.path, line=bad.place.line) if bad.place is not None else ""
        yield remedy(
            f"{finding.code}-{word}",
            say("{cure}{where}", cure=title, where=where),
            *steps,
            applicability=Applicability.UNSAFE,
            effort=Effort.ONE_LINE,
        )
    if bad.replay is None:
        recording = optional(lambda: patient.recorded_run)
        command = shlex.join(recording.command) if recording and recording.command else "COMMAND"
        yield remedy(
            f"{finding.code}-replay",
            say("replay step {step} to see the operation: gpudoctor verify", step=bad.step),
            say(
                "gpudoctor verify -- {command}   # runs up to that step again, looks at each of its operations",
                command=command,
            ),
            "with torch.autograd.detect_anomaly():   # by hand: its error names the forward operation",
            effort=Effort.COMMAND,
            references=(_ANOMALY,),
        )


_AMPERE = 8.0
"""Compute capability from which cards have bf16."""


@answers("NUM006")
def fp16_unsafe(finding: Finding, patient: Patient) -> Iterator[Remedy]:
    """bf16 needs no scaling; before Ampere only fp16 with a GradScaler is fast."""
    card, cure = lowest_capability(patient), finding.detail_of(Facts).cure
    missing = card is not None and card < _AMPERE
    if cure == "autocast" and missing:
        return
    yield remedy(
        "NUM006-bf16",
        say("train in float32: this card has no bf16") if missing else say("use bf16 instead of fp16"),
        "fp16=False" if missing else "bf16=True, fp16=False; or torch.autocast('cuda', dtype=torch.bfloat16)",
        effort=Effort.SETTING,
        edits=_bf16_edits(finding, patient) if cure == "bf16" and not missing else (),
    )


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
    "low": ("1e-4", say("from scratch 1e-4 to 1e-3, full fine-tuning 1e-5 to 5e-5, LoRA 1e-4 to 3e-4")),
}
"""What was found, the rate to try first, and the band."""


@answers("NUM009")
def learning_rate_out_of_band(finding: Finding, patient: Patient) -> Iterator[Remedy]:
    """Start in the middle of the band; the best rate is found by trying."""
    cure = finding.detail_of(Facts).cure
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
