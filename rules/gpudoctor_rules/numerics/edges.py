"""Edits that keep an operation away from its edge, at the line that a replay named."""

import ast
from collections.abc import Iterator

from gpudoctor.analysis.run.steady_run import script_at
from gpudoctor.analysis.source.syntax import nodes, segment
from gpudoctor.analysis.source.syntax_edits import replace_node
from gpudoctor.model import BadStepDetail, Edit, Patient
from gpudoctor.model.signs.source import Script

_CLAMPS = {
    "log": ".clamp_min(1e-12)", "log2": ".clamp_min(1e-12)", "log10": ".clamp_min(1e-12)",
    "sqrt": ".clamp_min(1e-12)", "rsqrt": ".clamp_min(1e-12)", "exp": ".clamp(max=80.0)",
    "acos": ".clamp(-1 + 1e-6, 1 - 1e-6)", "asin": ".clamp(-1 + 1e-6, 1 - 1e-6)",
    "reciprocal": ".clamp_min(1e-12)",
}  # fmt: skip
"""Operation to what is put behind its argument."""
_SIZES = frozenset({"std", "var", "norm", "vector_norm", "abs", "exp", "sqrt", "softmax"})
"""Calls whose result is never below 0: as divisors they can be clamped."""


def edge_edit(bad: BadStepDetail, patient: Patient) -> tuple[Edit, ...]:
    """The edit for the replay's operation at its line; empty where none is plain."""
    script = script_at(patient, bad.place.path) if bad.place is not None else None
    if script is None or bad.place is None:
        return ()
    if bad.operation in ("a division", "div", "Div"):
        found = list(_division(script, bad.place.line))
    else:
        found = list(_clamped(script, bad.place.line, bad.operation))
    return (found[0],) if len(found) == 1 else ()


def _here(script: Script, line: int, kind: type[ast.AST]) -> Iterator[ast.AST]:
    for node in nodes(script, kind):
        first, last = getattr(node, "lineno", 0), getattr(node, "end_lineno", 0) or 0
        if first == line == last:
            yield node


def _clamped(script: Script, line: int, operation: str) -> Iterator[Edit]:
    """`torch.log(x)` and `x.log()` with the argument clamped; of a softmax log_softmax."""
    for node in _here(script, line, ast.Call):
        assert isinstance(node, ast.Call)
        if not isinstance(node.func, ast.Attribute) or node.func.attr not in (operation, f"{operation}_"):
            continue
        inner = _argument(node)
        if inner is None:
            continue
        if operation == "log" and (whole := _log_softmax(script, inner)):
            yield replace_node(script, node, whole)
        elif operation in _CLAMPS:
            yield replace_node(script, inner, _wrapped(script, inner) + _CLAMPS[operation])


def _argument(call: ast.Call) -> ast.expr | None:
    """What the operation is of: the argument of a function, or the object of a method."""
    assert isinstance(call.func, ast.Attribute)
    owner = call.func.value
    module = isinstance(owner, ast.Name) and owner.id in {"torch", "np", "numpy", "math", "F"}
    if module:
        return call.args[0] if call.args and owner.id == "torch" else None  # type: ignore[attr-defined]
    return owner if not call.args else None


def _log_softmax(script: Script, inner: ast.expr) -> str:
    """`torch.log_softmax(x, dim=1)` for the softmax that is the logarithm's argument; "" for another one."""
    if not isinstance(inner, ast.Call) or not isinstance(inner.func, ast.Attribute) or inner.func.attr != "softmax":
        return ""
    text = segment(script, inner)
    name = segment(script, inner.func)
    return text.replace(name, name[: -len("softmax")] + "log_softmax", 1) if text.startswith(name) else ""


def _division(script: Script, line: int) -> Iterator[Edit]:
    """`a / b` with a divisor that stays above 0."""
    for node in _here(script, line, ast.BinOp):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div) and not _number(node.right):
            text = _wrapped(script, node.right)
            yield replace_node(
                script, node.right, f"{text}.clamp_min(1e-8)" if _never_below(node.right) else f"({text} + 1e-8)"
            )


def _never_below(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _SIZES


def _number(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) or (isinstance(node, ast.Call) and ast.unparse(node.func) == "len")


def _wrapped(script: Script, node: ast.expr) -> str:
    """The expression's text, in parentheses where an attribute would bind to a part of it."""
    text = segment(script, node)
    simple = isinstance(node, ast.Name | ast.Attribute | ast.Call | ast.Subscript)
    return text if simple or text.startswith("(") else f"({text})"
