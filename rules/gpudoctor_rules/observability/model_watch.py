"""Answers OBS006: seldom, gradients only, or scalars."""

import ast
from collections.abc import Iterator

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
    TextEdit,
)
from gpudoctor.model.reading.cadence import counted, counter, event_at, less_often, modulus, settable
from gpudoctor.model.reading.edits import replace_node
from gpudoctor.model.reading.program import enclosing, loop_node, statement
from gpudoctor.model.signs.source import Known, Loop, Script
from gpudoctor.model.workload import scripts_given

EVERY = 1000
"""wandb's own default for `log_freq`."""

ALWAYS = Known(value=1, origin="unguarded")
"""The period of what no condition guards."""


class ModelWatchRule(Rule):
    """Gradients every 1,000 steps, or norms."""

    answers = Code("OBS006")

    def prescribe(self, finding: Finding, patient: Patient) -> Iterator[Remedy]:
        how = finding.fact("how")
        edits = _edits(finding, patient)
        title = {
            "watch": f'log="gradients", log_freq={EVERY}',
            "config": f"{finding.fact('key')}: {EVERY}",
            "variable": "WANDB_WATCH=false",
        }.get(str(how), f"histograms every {EVERY} steps")
        yield Remedy(
            id="OBS006-every",
            title=title,
            steps=(
                title if how != "loop" else f"if step % {EVERY} == 0:   # around the loop over the parameters",
            ),
            applicability=Applicability.SAFE if edits else Applicability.DISPLAY_ONLY,
            effort=Effort.ONE_LINE,
            override=(("every", str(EVERY)),) if how == "loop" else (),
            sets=(("watch_period", str(EVERY)),),
            edits=edits,
        )
        yield Remedy(
            id="OBS006-norms",
            title="norms instead of histograms, read in one transfer",
            steps=(
                "norms = torch._foreach_norm([p.grad for p in model.parameters() if p.grad is not None])",
                "torch.stack(norms).tolist()   # one wait for the whole model, every 100 steps",
            ),
            applicability=Applicability.DISPLAY_ONLY,
            effort=Effort.SMALL_EDIT,
        )


def _edits(finding: Finding, patient: Patient) -> tuple[Edit, ...]:
    span, how = finding.span, finding.fact("how")
    if how == "config":
        return _in_config(finding, patient)
    if span is None:
        return ()
    if how == "watch":
        keywords = (("log_freq", str(EVERY)), *((("log", '"gradients"'),) if finding.fact("all") else ()))
        if not settable(scripts_given(patient), span, *(name for name, _ in keywords), method="watch", free=2):
            return ()
        return (KeywordEdit(path=span.path, line=span.line, column=span.column, set=keywords),)
    script = next((item for item in scripts_given(patient).scripts if item.path == span.path), None)
    if how == "variable":
        return _variable(script, span)
    for owner, loop in scripts_given(patient).training_loops:
        if script is owner and loop.span.line == finding.fact("loop_line"):
            event = event_at(loop, span.line, span.column, span.path)
            seldom = (
                less_often(owner, loop, event, EVERY) if event is not None and event.period != ALWAYS else ()
            )
            return seldom or _around(owner, loop, span)
    return ()


def _in_config(finding: Finding, patient: Patient) -> tuple[Edit, ...]:
    for setting in finding.evidence:
        if isinstance(setting, Setting):
            for file in patient.configs.files:
                entry = file.entries.get(setting.key) if file.path == setting.path else None
                edit = file.edit(entry, str(EVERY)) if entry is not None else None
                if edit is not None:
                    return (edit,)
    return ()


def _variable(script: Script | None, span: SourceSpan) -> tuple[Edit, ...]:
    for node in ast.walk(script.tree) if script is not None else ():
        if isinstance(node, ast.Constant) and node.value == "all" and node.lineno == span.line:
            return (replace_node(script, node, '"false"'),) if script is not None else ()
    return ()


def _around(script: Script, loop: Loop, span: SourceSpan) -> tuple[Edit, ...]:
    """The number of the guard around the loop over the parameters, or a guard before that loop."""
    head = loop_node(script, loop)
    name = counter(head) if isinstance(head, ast.For) else ""
    found = next(
        (node for node in ast.walk(script.tree)
         if isinstance(node, ast.Call) and (node.lineno, node.col_offset + 1) == (span.line, span.column)),
        None,
    )  # fmt: skip
    whole = statement(script, found) if found is not None else None
    above = list(enclosing(script, whole)) if whole is not None else []
    if head is None or head not in above:
        return ()
    inside = above[: above.index(head)]
    for node in inside:
        if isinstance(node, ast.If) and not node.orelse:
            number = modulus(node.test)
            if number is not None:
                return (replace_node(script, number, str(EVERY)),)
    outer = inside[-1] if inside else None
    if not isinstance(outer, ast.For) or not isinstance(head, ast.For):
        return ()
    name, edits = (name, ()) if name else counted(script, head)
    moved = _indented(script, outer, name) if name else ()
    return (*edits, *moved) if moved else ()


def _indented(script: Script, node: ast.For, name: str) -> tuple[TextEdit, ...]:
    lines = script.text.splitlines()
    block = lines[node.lineno - 1 : node.end_lineno]
    indent = block[0][: len(block[0]) - len(block[0].lstrip())]
    if any(isinstance(part, ast.Constant | ast.JoinedStr) and part.lineno != part.end_lineno
           for part in ast.walk(node)):  # fmt: skip
        return ()
    step = "\t" if "\t" in indent else "    "
    moved = [step + line if line.strip() else line for line in block]
    text = f"if {name} % {EVERY} == 0:\n" + "\n".join(moved)
    return (replace_node(script, node, text),) if block[0].strip().startswith("for") else ()
