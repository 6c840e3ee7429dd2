"""Answers PERF003 compile-off."""

import ast
from collections.abc import Iterator

from gpudoctor.analysis.source.control_flow import loop_node, statement
from gpudoctor.analysis.source.entry_points import Program, training_programs
from gpudoctor.analysis.source.precision import TRAINING_ARGUMENTS
from gpudoctor.analysis.source.syntax import nodes
from gpudoctor.analysis.source.syntax_edits import insert_after
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
from gpudoctor.model.signs.source import Loop, Script
from gpudoctor_checks.performance.compile_off import CompileOffDetail


class CompileOffRule(Rule):
    """Compile the network in place, which keeps the names of its weights."""

    answers = Code("PERF003")

    def prescribe(self, finding: Finding, patient: Patient) -> Iterator[Remedy]:
        title, edits = _answer(finding, patient)
        yield Remedy(
            id="PERF003-compile",
            title=title,
            steps=(
                title
                if "=" in title
                else say("{change}  # after the network is on its device, before the loop", change=title),
                "TORCH_LOGS=recompiles,graph_breaks shows what keeps it from gaining.",
            ),
            applicability=Applicability.UNSAFE,
            effort=Effort.ONE_LINE,
            effect=Effect(quantity="throughput", low=1.0, high=1.5, unit="x", provenance=EffectOrigin.PUBLISHED),
            sets=(("compile", "True"),),
            edits=edits,
            override=(("torch.compile", "model"),),
            references=("https://pytorch.org/get-started/pytorch-2-x/",),
        )


def _answer(finding: Finding, patient: Patient) -> tuple[str, tuple[Edit, ...]]:
    detail = finding.detail_of(CompileOffDetail)
    try:
        programs = training_programs(scripts_given(patient))
    except Unavailable:
        return "model.compile()", ()
    program = next((item for item in programs if item.entry.path == finding.subject), None)
    if program is None:
        return "model.compile()", ()
    if detail.engine.startswith(("transformers.", "trl.")):
        return "torch_compile=True", tuple(_arguments(program))
    for script, loop in program.loops:
        if script.path == detail.script and loop.span.line == detail.line:
            return _after_the_model(script, loop)
    return "model.compile()", ()


def _arguments(program: Program) -> Iterator[Edit]:
    calls = [call for _, call in program.calls if TRAINING_ARGUMENTS.search(call.name)]
    if len(calls) == 1 and not calls[0].open_ended:
        span = calls[0].span
        yield KeywordEdit(path=span.path, line=span.line, column=span.column, set=(("torch_compile", "True"),))


def _after_the_model(script: Script, loop: Loop) -> tuple[str, tuple[Edit, ...]]:
    """`model.compile()` after the last assignment to the network's name that stands before the loop."""
    names = [
        event.call.node.func.id
        for event in loop.events
        if event.call is not None
        and not event.via
        and isinstance(event.call.node.func, ast.Name)
        and event.call.name.endswith("Module.__call__")
    ]
    node = loop_node(script, loop)
    if not names or node is None:
        return "model.compile()", ()
    text = f"{names[0]}.compile()"
    places = [
        item
        for item in nodes(script, ast.Assign)
        if item.lineno < node.lineno
        and any(isinstance(target, ast.Name) and target.id == names[0] for target in item.targets)
    ]
    functions = {
        call.function for call in script.calls if any(call.node is part for item in places for part in ast.walk(item))
    }
    if not places or functions != {loop.function}:
        return text, ()
    last = max(places, key=lambda item: item.lineno)
    if last.col_offset != min(item.col_offset for item in places) or statement(script, last) is None:
        return text, ()  # inside a branch
    return text, (insert_after(script, last, text),)
