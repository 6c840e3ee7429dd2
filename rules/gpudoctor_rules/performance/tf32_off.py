"""Answers PERF002 tf32-off."""

import ast
from collections.abc import Iterator

from gpudoctor.analysis.source.control_flow import enclosing
from gpudoctor.analysis.source.entry_points import training_programs
from gpudoctor.analysis.source.syntax_edits import replace_node
from gpudoctor.analysis.source.tf32 import Tf32Setting, tf32_settings
from gpudoctor.analysis.workload import scripts_given
from gpudoctor.lang import say
from gpudoctor.model import (
    Applicability,
    Code,
    Edit,
    Effect,
    EffectOrigin,
    Effort,
    Finding,
    KeywordEdit,
    Patient,
    Remedy,
    Rule,
    Unavailable,
)
from gpudoctor_checks.performance.tf32_off import Tf32OffDetail

_ALLOWED = {"highest": '"high"', "ieee": '"tf32"', "none": '"tf32"'}


_BY_CALL = 'torch.set_float32_matmul_precision("high")'
"""What a run shows has no setting in a file that could be changed."""


class Tf32OffRule(Rule):
    """Allow it where it is forbidden."""

    answers = Code("PERF002")

    def prescribe(self, finding: Finding, patient: Patient) -> Iterator[Remedy]:
        detail = finding.detail_of(Tf32OffDetail)
        title, edits = _answer(finding, patient)
        yield Remedy(
            id="PERF002-allow",
            title=title,
            steps=((say("Line {line}: {change}", line=detail.line, change=title) if detail.line else title),),
            applicability=Applicability.UNSAFE,
            effort=Effort.ONE_LINE if detail.kind == "source" else Effort.SETTING,
            effect=Effect(quantity="throughput", low=1.0, high=3.0, unit="x", provenance=EffectOrigin.PUBLISHED),
            sets=(("tf32", "on"),),
            edits=edits,
            override=(("torch.float32_matmul_precision", "high"),),
            references=(
                "https://pytorch.org/docs/stable/notes/cuda.html#tensorfloat-32-tf32-on-ampere-and-later-devices",
                "https://developer.nvidia.com/blog/accelerating-ai-training-with-tf32-tensor-cores/",
            ),
        )


def _answer(finding: Finding, patient: Patient) -> tuple[str, tuple[Edit, ...]]:
    detail = finding.detail_of(Tf32OffDetail)
    kind, target = detail.kind, (detail.target or "")
    if kind == "environment":
        return "unset NVIDIA_TF32_OVERRIDE", ()
    if kind == "config":
        for file in patient.configs.files:
            entry = file.entries.get(target) if file.path == detail.path else None
            edit = file.edit(entry, "true") if entry is not None else None
            if edit is not None:
                return f"{target}: true", (edit,)
        return f"{target}: true", ()
    setting = _setting(finding, patient)
    if setting is None:
        return say("{target}: allow TF32", target=target) if target else _BY_CALL, ()
    if setting.target == "tf32":
        return "tf32=True", tuple(_keyword(setting))
    plain = setting.node.value if isinstance(setting.node, ast.Constant) else None
    value = _ALLOWED.get(str(plain), "True")
    written = f"{target}({value})" if plain == "highest" else f"{target} = {value}"
    edit = replace_node(setting.script, setting.node, value)
    return written, (edit,) if isinstance(setting.node, ast.Constant) else ()


def _keyword(setting: Tf32Setting) -> Iterator[KeywordEdit]:
    """`tf32=` of the call around its value."""
    call = next((node for node in enclosing(setting.script, setting.node) if isinstance(node, ast.Call)), None)
    if call is not None and isinstance(setting.node, ast.Constant):
        span = setting.script.span(call)
        yield KeywordEdit(path=span.path, line=span.line, column=span.column, set=(("tf32", "True"),))


def _setting(finding: Finding, patient: Patient) -> Tf32Setting | None:
    detail = finding.detail_of(Tf32OffDetail)
    try:
        programs = training_programs(scripts_given(patient))
    except Unavailable:
        return None
    for program in programs:
        for setting in tf32_settings(program):
            span = setting.script.span(setting.node)
            if span.path == detail.path and span.line == detail.line:
                return setting
    return None
