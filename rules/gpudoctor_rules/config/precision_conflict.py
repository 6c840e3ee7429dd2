"""Answers CFG001: one mixed precision."""

from collections.abc import Iterator

from gpudoctor.analysis.source.declared_settings import Written, replace_key
from gpudoctor.lang import say
from gpudoctor.model import Applicability, Code, Edit, Effort, Finding, Patient, Remedy, Rule
from gpudoctor_checks.config.precision_conflict import PrecisionConflictDetail
from gpudoctor_rules.config.placing import auto_edits, settings

STEPS = {
    "auto": (
        say('"auto" for fp16.enabled and bf16.enabled in the DeepSpeed config'),
        say("transformers fills it in from the training arguments; DeepSpeed alone cannot read it"),
    ),
    "drop": (say("remove mixed_precision from the accelerate config"), say("the DeepSpeed config says it")),
    "scaler": (
        say("remove the GradScaler: call engine.backward(loss) and engine.step()"),
        say("DeepSpeed scales the loss under fp16 by itself"),
    ),
    "load": (
        say("load the model in float32 (leave torch_dtype out), or train with bf16=True"),
        say("fp16=True keeps a float32 master copy only of float32 weights"),
    ),
    "none": (say("keep one of the two precisions, the same in both places"), say("bf16 where the card has it")),
}


class PrecisionConflictRule(Rule):
    """Keep one precision: bf16 before fp16, the training arguments before DeepSpeed's config."""

    answers = Code("CFG001")

    def prescribe(self, finding: Finding, patient: Patient) -> Iterator[Remedy]:
        cure = finding.detail_of(PrecisionConflictDetail).cure
        if cure == "auto":
            edits = auto_edits(finding, patient)
            yield _remedy("auto", *STEPS["auto"], edits)
        elif cure in {"fp16-off", "amp-off"}:
            key = cure.partition("-")[0]
            items = [item for _, item in settings(finding, patient) if key in item.key.lower() and item.on]
            title = say("{key} off", key=key)
            if items:
                title = f"{items[0].key}: false" if items[0].file is not None else f"{items[0].key}=False"
            why = say(
                "bf16 has float32's range and needs no loss scaling" if key == "fp16" else "one of the two is enough"
            )
            yield _remedy(cure, title, why, _edits(items[:1], "false", "False"))
        elif cure == "amp-to-bf16":
            items = [item for _, item in settings(finding, patient) if item.key.endswith("amp.enabled")]
            why = say("DeepSpeed's own bf16 works with ZeRO; without any mixed precision the training is in float32")
            yield _remedy(cure, say('"bf16": {{"enabled": true}} in place of amp'), why, _section_renamed(items))
        elif cure == "load-bf16":
            items = [item for _, item in settings(finding, patient) if "dtype" in item.key]
            name = items[0].key if items else "torch_dtype"
            edits = _edits(items[:1], "bfloat16", _bfloat16(items[0])) if items else ()
            yield _remedy(
                cure, say("load the model with {key}=torch.bfloat16", key=name), say("as it is trained"), edits
            )
        else:
            yield _remedy(cure, *STEPS.get(cure, STEPS["none"]), ())


def _remedy(name: str, title: str, why: str, edits: tuple[Edit, ...]) -> Remedy:
    return Remedy(
        id=f"CFG001-{name}",
        title=title,
        steps=(title, why),
        applicability=Applicability.UNSAFE if edits else Applicability.DISPLAY_ONLY,
        effort=Effort.SETTING,
        edits=edits,
    )


def _section_renamed(items: list[Written]) -> tuple[Edit, ...]:
    """`amp` becomes `bf16` where the block holds nothing but its switch."""
    item = items[0] if items else None
    if item is None or item.file is None or item.entry is None or len(item.entry.parts) < 2:
        return ()
    key = item.entry.key.removesuffix(".enabled")
    section = item.file.sections.get(key)
    if section is None or len(list(item.file.under(key))) != 1:
        return ()
    edit = replace_key(item.file, section.line, section.column, "amp", "bf16")
    return () if edit is None else (edit,)


def _bfloat16(item: Written) -> str:
    """The dtype as the script spells it: `torch.bfloat16`, or the word."""
    owner = item.node_text.rpartition(".")[0]
    return f"{owner}.bfloat16" if owner else '"bfloat16"'


def _edits(items: list[Written], config: str, python: str) -> tuple[Edit, ...]:
    found = [item.edit(config, python=python) for item in items]
    return tuple(edit for edit in found if edit is not None)
