"""Answers MEM003: keep the number, not the graph."""

import ast
from collections.abc import Iterator

from gpudoctor.analysis.source.syntax import nodes, segment
from gpudoctor.analysis.workload import scripts_given
from gpudoctor.lang import say
from gpudoctor.model import Applicability, Code, Edit, Effort, Finding, Patient, Remedy, Rule, TextEdit
from gpudoctor.model.signs.source import Script
from gpudoctor_checks.memory.graph_retained import GraphRetainedDetail

_REFERENCES = (
    "https://docs.pytorch.org/docs/stable/notes/faq.html#my-model-reports-cuda-runtime-error-2-out-of-memory",
)


class GraphRetainedRule(Rule):
    """Detach what is kept."""

    answers = Code("MEM003")

    def prescribe(self, finding: Finding, patient: Patient) -> Iterator[Remedy]:
        kept = finding.detail_of(GraphRetainedDetail)
        value = kept.value
        if not value:  # the recorder saw the container grow: which tensor it is, only the user knows
            yield _by_container(kept.target)
            return
        detached = _detached(value)
        edits = _edits(finding, patient, detached)
        yield Remedy(
            id="MEM003-detach",
            title=say("keep {value}", value=detached),
            steps=(
                say(
                    "replace {value} with {detached} in: {statement}",
                    value=value,
                    detached=detached,
                    statement=finding.span.text if finding.span else value,
                ),
            ),
            applicability=Applicability.SAFE if edits else Applicability.DISPLAY_ONLY,
            effort=Effort.ONE_LINE,
            edits=edits,
            references=_REFERENCES,
        )


def _by_container(target: str) -> Remedy:
    """The remedy where only the container is known."""
    return Remedy(
        id="MEM003-detach",
        title=say("keep what goes into {target} without its graph", target=target),
        steps=(
            say(
                "put `.detach()` on each tensor that goes into {target}, `.item()` where a number is enough",
                target=target,
            ),
        ),
        applicability=Applicability.DISPLAY_ONLY,
        effort=Effort.ONE_LINE,
        references=_REFERENCES,
    )


def _detached(value: str) -> str:
    """The expression with its graph cut; a display is cut inside."""
    node = ast.parse(value, mode="eval").body
    if _contains_display(node):
        return say("{value} with .detach() on each tensor", value=value)
    simple = isinstance(node, ast.Name | ast.Attribute | ast.Call | ast.Subscript)
    return f"{value}.detach()" if simple else f"({value}).detach()"


def _contains_display(node: ast.expr) -> bool:
    """Whether the value is a container written out, or a sum with one; what is in it is to be detached."""
    if isinstance(node, ast.BinOp):
        return _contains_display(node.left) or _contains_display(node.right)
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Name) and node.func.id in {"dict", "list", "tuple"}
    return isinstance(node, ast.Tuple | ast.List | ast.Dict)


def _edits(finding: Finding, patient: Patient, detached: str) -> tuple[Edit, ...]:
    span = finding.span
    script = next((item for item in scripts_given(patient).scripts if span and item.path == span.path), None)
    node = _node(script, finding.detail_of(GraphRetainedDetail)) if script else None
    if script is None or node is None or " with " in detached:
        return ()
    text = segment(script, node)
    line = script.text.splitlines()[node.lineno - 1]
    if not text or node.end_lineno != node.lineno:
        return ()
    start = len(line.encode()[: node.col_offset].decode()) + 1
    return (
        TextEdit(
            path=script.path,
            line=node.lineno,
            column=start,
            end_line=node.lineno,
            end_column=start + len(text),
            new_text=_detached(text),
            expected=text,
        ),
    )


def _node(script: Script, kept: GraphRetainedDetail) -> ast.expr | None:
    """The kept expression."""
    place = (kept.line, kept.column)
    found = (node for node in nodes(script, ast.expr) if (node.lineno, node.col_offset) == place)
    return next((node for node in found if ast.unparse(node) == kept.value), None)
