"""Answers NUM006: bf16 where the card has it, a scaler where it has not."""

from collections.abc import Iterator

from gpudoctor.analysis.source.declared_settings import add_keyword, from_keyword
from gpudoctor.analysis.source.syntax_edits import replace_node
from gpudoctor.analysis.source.training_arguments import deepspeed_configs, training_arguments
from gpudoctor.analysis.workload import optional, scripts_given
from gpudoctor.lang import say
from gpudoctor.model import (
    Applicability,
    Code,
    Edit,
    Effort,
    Finding,
    KeywordEdit,
    Patient,
    Remedy,
    Rule,
    Setting,
    SourceSpan,
)
from gpudoctor.model.signs.source import Call, Script
from gpudoctor_checks.numerics.fp16_unsafe import Fp16UnsafeDetail

AMPERE = (8, 0)
"""Compute capability from which cards have bf16."""

_STEP = ("scaler.scale(loss).backward(); scaler.step(optimizer); scaler.update()",)


class Fp16UnsafeRule(Rule):
    """bf16 needs no scaling; before Ampere only fp16 with a GradScaler is fast."""

    answers = Code("NUM006")

    def prescribe(self, finding: Finding, patient: Patient) -> Iterator[Remedy]:
        cure = finding.detail_of(Fp16UnsafeDetail).cure
        if cure == "scaler-step":
            yield self._scaler_step(finding, patient)
        elif cure == "dynamic":
            yield _remedy("dynamic", "loss_scale: 0 (dynamic)", ('"loss_scale": 0',), _config(finding, patient, "0"))
        elif cure == "bf16":
            yield self._bf16(finding, patient)
        elif cure == "collapsed":
            missing = has_bf16(patient) is False
            title = say("train in float32: this card has no bf16") if missing else say("use bf16 instead of fp16")
            yield _remedy("bf16", title, (say("torch.autocast('cuda', dtype=torch.bfloat16), or bf16=True"),), ())
        elif cure == "precision":
            value = "bf16-true" if "16-true" in finding.message else "bf16"
            yield _remedy("precision", f"precision: {value}", (value,), _config(finding, patient, value))
        elif cure == "autocast" and has_bf16(patient) is not False:
            yield _remedy(
                "bf16",
                "dtype=torch.bfloat16",
                (say("torch.autocast('cuda', dtype=torch.bfloat16)   # Ampere or later"),),
                _autocast(finding, patient),
            )

    def _scaler_step(self, finding: Finding, patient: Patient) -> Remedy:
        found = _call_at(finding, patient)
        edits: tuple[Edit, ...] = ()
        if found is not None:
            script, call = found
            scaler = next((item.receiver for item in script.calls if item.name.endswith("GradScaler.scale")), "scaler")
            updates = any(item.name.endswith("GradScaler.update") for item in script.calls)
            text = f"{scaler}.step({call.receiver})" + ("" if updates else f"; {scaler}.update()")
            edits = (replace_node(script, call.node, text),)
        return _remedy("scaler-step", "scaler.step(optimizer); scaler.update()", _STEP, edits)

    def _bf16(self, finding: Finding, patient: Patient) -> Remedy:
        missing = has_bf16(patient) is False
        edits = () if missing else _switch(finding, patient)
        return _remedy(
            "bf16",
            say("train in float32: this card has no bf16") if missing else say("use bf16 instead of fp16"),
            ("fp16=False" if missing else "bf16=True, fp16=False",),
            edits,
        )


def has_bf16(patient: Patient) -> bool | None:
    """Whether every card has bf16; None without a card to ask."""
    cards = optional(lambda: patient.gpus)
    found = [card.compute_capability for card in cards or ()]
    known = [item for item in found if isinstance(item, tuple)]
    return all(item >= AMPERE for item in known) if known else None


def _remedy(name: str, title: str, steps: tuple[str, ...], edits: tuple[Edit, ...]) -> Remedy:
    return Remedy(
        id=f"NUM006-{name}",
        title=title,
        steps=steps,
        applicability=Applicability.UNSAFE if edits else Applicability.DISPLAY_ONLY,
        effort=Effort.SETTING,
        edits=edits,
    )


def _call_at(finding: Finding, patient: Patient) -> tuple[Script, Call] | None:
    place = finding.span
    source = optional(lambda: scripts_given(patient))
    for script in source.scripts if source is not None and place is not None else ():
        for call in script.calls:
            if call.span == place:
                return script, call
    return None


def _autocast(finding: Finding, patient: Patient) -> tuple[Edit, ...]:
    found = _call_at(finding, patient)
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
    return (KeywordEdit(path=span.path, line=span.line, column=span.column, set=(("dtype", "torch.bfloat16"),)),)


def _switch(finding: Finding, patient: Patient) -> tuple[Edit, ...]:
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


def _config(finding: Finding, patient: Patient, value: str) -> tuple[Edit, ...]:
    place = finding.evidence[0]
    if isinstance(place, SourceSpan):
        for setup in deepspeed_configs(patient):
            for item in setup.items.values():
                edit = item.edit(value) if item.place == place else None
                if edit is not None:
                    return (edit,)
    configs = optional(lambda: patient.configs)
    for file in configs.files if configs is not None and isinstance(place, Setting) else ():
        entry = file.entries.get(place.key) if isinstance(place, Setting) and file.path == place.path else None
        edit = file.edit(entry, value) if entry is not None else None
        if edit is not None:
            return (edit,)
    return ()
