"""Answers PERF010 autotune-off."""

import ast
from collections.abc import Iterator

from gpudoctor.analysis.source.syntax import nodes
from gpudoctor.analysis.source.syntax_edits import insert_after, replace_node
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
    ImportEdit,
    Patient,
    Remedy,
    Rule,
    Unavailable,
)
from gpudoctor.model.signs.source import Script
from gpudoctor_checks.performance.autotune_off import AutotuneOffDetail

_LINE = "torch.backends.cudnn.benchmark = True"


class AutotuneOffRule(Rule):
    """Let cuDNN time its algorithms once."""

    answers = Code("PERF010")

    def prescribe(self, finding: Finding, patient: Patient) -> Iterator[Remedy]:
        edits = tuple(_edits(finding, patient))
        yield Remedy(
            id="PERF010-benchmark",
            title=_LINE,
            steps=(say("Once, before the training: {setting}", setting=_LINE),),
            applicability=Applicability.UNSAFE,  # other algorithms round otherwise
            effort=Effort.ONE_LINE,
            effect=Effect(quantity="throughput", low=1.0, high=1.15, unit="x", provenance=EffectOrigin.PUBLISHED),
            sets=(("cudnn.benchmark", "True"),),
            edits=edits,
            override=(("torch.backends.cudnn.benchmark", "True"),),
            references=("https://pytorch.org/tutorials/recipes/recipes/tuning_guide.html#enable-cudnn-auto-tuner",),
        )


def _edits(finding: Finding, patient: Patient) -> Iterator[Edit]:
    try:
        scripts = scripts_given(patient).scripts
    except Unavailable:
        return
    span = finding.span
    if finding.detail_of(AutotuneOffDetail).written and span is not None:
        for guilty in scripts:
            for node in nodes(guilty, ast.Assign) if guilty.path == span.path else ():
                if node.lineno == span.line:
                    yield replace_node(guilty, node.value, "True")
        return
    script = next((item for item in scripts if item.path == finding.subject), None)
    last = _last_import(script) if script is not None else None
    if script is not None and last is not None and not script.path.endswith(".ipynb"):
        if script.imports.get("torch") != "torch":
            yield ImportEdit(path=script.path, statement="import torch")
        yield insert_after(script, last, f"\n{_LINE}")


def _last_import(script: Script) -> ast.stmt | None:
    """The last statement of the module's first block of imports."""
    last: ast.stmt | None = None
    for node in script.tree.body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            last = node
        elif last is not None:
            break
    return last
