"""Answers MEM003: keep the number, not the graph."""

import ast
from collections.abc import Iterator

from gpudoctor.lang import say
from gpudoctor.model import Applicability, Code, Effort, Finding, Patient, Remedy, Rule
from gpudoctor_checks.memory.graph_retained import GraphRetainedDetail

_REFERENCES = (
    "https://docs.pytorch.org/docs/stable/notes/faq.html#my-model-reports-cuda-runtime-error-2-out-of-memory",
)


class GraphRetainedRule(Rule):
    """Detach what is kept."""

    answers = Code("MEM003")

    def prescribe(self, finding: Finding, patient: Patient) -> Iterator[Remedy]:  # noqa: ARG002
        kept = finding.detail_of(GraphRetainedDetail)
        value = kept.value
        if not value:  # the recorder saw the container grow: which tensor it is, only the user knows
            yield _by_container(kept.target)
            return
        detached = _detached(value)
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
                "Leave it as it is if a later backward pass uses it.",
            ),
            # No edit: the value may be kept for a backward pass, in this function or in another.
            applicability=Applicability.DISPLAY_ONLY,
            effort=Effort.ONE_LINE,
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
