"""Answers LOOP001: clear the gradients after each step."""

import ast
import re
from collections.abc import Iterator

from gpudoctor.analysis.source.syntax import nodes, segment
from gpudoctor.analysis.workload import scripts_given
from gpudoctor.lang import say
from gpudoctor.model import Applicability, Code, Edit, Effort, Finding, Patient, Remedy, Rule, TextEdit
from gpudoctor_checks.loop.zero_grad_missing import ZeroGradMissingDetail


class ZeroGradMissingRule(Rule):
    """Clear right after the step: right with and without accumulation."""

    answers = Code("LOOP001")

    def prescribe(self, finding: Finding, patient: Patient) -> Iterator[Remedy]:
        optimizer = finding.detail_of(ZeroGradMissingDetail).optimizer or _named(finding)
        where = finding.span.text if finding.span else f"{optimizer}.step()"
        yield Remedy(
            id="LOOP001-zero-grad",
            title=say("call {optimizer}.zero_grad() after each step", optimizer=optimizer),
            steps=(say("after {statement}", statement=where), f"    {optimizer}.zero_grad()"),
            applicability=Applicability.UNSAFE,
            effort=Effort.ONE_LINE,
            edits=_edits(finding, patient, optimizer),
            references=("https://docs.pytorch.org/docs/stable/generated/torch.optim.Optimizer.zero_grad.html",),
        )


def _named(finding: Finding) -> str:
    """The optimizer's name by the line of its step, where only a run was looked at."""
    text = finding.span.text if finding.span else ""
    found = re.search(r"([A-Za-z_][\w.\[\]]{0,60})\.step\(", text)
    return found[1] if found else "optimizer"


def _edits(finding: Finding, patient: Patient, optimizer: str) -> tuple[Edit, ...]:
    """The statement that steps, with a line after it; only where it stands alone on its lines."""
    span = finding.span
    script = next((item for item in scripts_given(patient).scripts if span and item.path == span.path), None)
    if span is None or script is None:
        return ()
    lines = script.text.splitlines()
    for node in nodes(script, ast.Expr, ast.Assign):
        if node.lineno == span.line == node.end_lineno:
            text = segment(script, node)
            indent = lines[node.lineno - 1][: node.col_offset]
            if lines[node.lineno - 1].split("#", 1)[0].strip() != text or indent.strip():
                return ()
            return (
                TextEdit(
                    path=script.path,
                    line=node.lineno,
                    column=node.col_offset + 1,
                    end_line=node.lineno,
                    end_column=node.col_offset + 1 + len(text),
                    new_text=f"{text}\n{indent}{optimizer}.zero_grad()",
                    expected=text,
                ),
            )
    return ()
