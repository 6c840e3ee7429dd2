"""Answers CFG007: targets that exist, an alpha near the rank, inputs with gradients."""

from collections.abc import Iterator

from gpudoctor.analysis.source.declared_settings import Written, add_keyword
from gpudoctor.analysis.workload import optional
from gpudoctor.lang import say
from gpudoctor.model import Applicability, Code, Edit, Effort, Finding, KeywordEdit, Patient, Remedy, Rule, SourceSpan
from gpudoctor.model.signs.configs import ConfigKind
from gpudoctor.model.signs.source import Call, Script
from gpudoctor_checks.config.lora_misfit import LoraMisfitDetail
from gpudoctor_rules.config.placing import settings

RANK = "8"
"""PEFT's default."""


class LoraMisfitRule(Rule):
    """Name what the model has; scale by one or two; let gradients in."""

    answers = Code("CFG007")

    def prescribe(self, finding: Finding, patient: Patient) -> Iterator[Remedy]:
        cure = finding.detail_of(LoraMisfitDetail).cure
        items = [item for _, item in settings(finding, patient)]
        if cure == "targets" and items:
            yield _targets(items[0])
        elif cure == "alpha" and len(items) == 2 and items[1].number:
            value = str(int(2 * items[1].number))
            edit = items[0].edit(value)
            yield _remedy(cure, f"{items[0].key}={value}", say("two times the rank"), _one(edit))
        elif cure == "rank" and items:
            yield _remedy(cure, f"{items[0].key}={RANK}", say("PEFT's default"), _one(items[0].edit(RANK)))
        elif cure == "gather":
            edits = _one(items[0].edit("true", python="True")) if items else ()
            title = "stage3_gather_16bit_weights_on_model_save: true"
            yield _remedy(cure, title, say("the adapter is then saved whole"), edits)
        elif cure == "reentrant":
            yield _remedy(
                cure,
                'gradient_checkpointing_kwargs={"use_reentrant": False}',
                say("or model.enable_input_require_grads() before the training"),
                _reentrant(finding, patient),
            )


def _targets(item: Written) -> Remedy:
    kind = item.file.kind if item.file is not None else None
    if kind is ConfigKind.AXOLOTL:
        return _remedy("targets", "lora_target_linear: true", say("instead of lora_target_modules"), ())
    word = "all" if kind is ConfigKind.LLAMA_FACTORY else "all-linear"
    quoted = word if item.file is not None and item.file.format == "yaml" else f'"{word}"'
    return _remedy(
        "targets",
        f"{item.key}={quoted}",
        say("every linear layer of the blocks, whatever the family calls them (PEFT 0.8 and later)"),
        _one(item.edit(quoted, python=f'"{word}"')),
    )


def _one(edit: Edit | None) -> tuple[Edit, ...]:
    return () if edit is None else (edit,)


def _reentrant(finding: Finding, patient: Patient) -> tuple[Edit, ...]:
    place = finding.evidence[0]
    source = optional(lambda: patient.source)
    if not isinstance(place, SourceSpan) or source is None:
        return ()
    for script in source.scripts:
        for call in script.calls if script.path == place.path else ():
            method = call.method == "gradient_checkpointing_enable" and call.span == place
            if method or any(script.span(keyword) == place for keyword in call.node.keywords):
                return _with(script, call)
    return ()


def _with(script: Script, call: Call) -> tuple[Edit, ...]:
    name, value = "gradient_checkpointing_kwargs", say('{{"use_reentrant": False}}')
    if call.node.args or call.node.keywords:
        return _one(add_keyword(script, call, name, value))
    span = call.span  # nothing is chained to a call that returns None
    return (KeywordEdit(path=span.path, line=span.line, column=span.column, set=((name, value),)),)


def _remedy(name: str, title: str, why: str, edits: tuple[Edit, ...]) -> Remedy:
    return Remedy(
        id=f"CFG007-{name}",
        title=title,
        steps=(title, why),
        applicability=Applicability.UNSAFE if edits else Applicability.DISPLAY_ONLY,
        effort=Effort.SETTING,
        edits=edits,
    )
