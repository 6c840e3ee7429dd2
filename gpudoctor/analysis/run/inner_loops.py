"""Loops in which the passes themselves are made, one after the other: inner steps, rollouts, decoders."""

import ast

from gpudoctor.analysis.memo import once
from gpudoctor.analysis.source.syntax import nodes
from gpudoctor.model.signs.source import Call, Script

_PASSES = ("torch.autograd.", "torch.func.", "torch.nn.functional.", "functorch.")
_PLAIN = frozenset(
    {"zip", "range", "len", "list", "tuple", "dict", "items", "values", "keys", "append", "extend", "reversed"}
)
"""What a line does beside its tensors, in no time."""
_TENSORS = frozenset(
    {"abs", "add", "argmax", "bool", "clamp", "clone", "cumsum", "detach", "div", "exp", "expand", "flatten",
     "flip", "float", "gather", "lerp", "lerp_", "log", "log_prob", "log_softmax", "long", "masked_fill",
     "matmul", "max", "mean", "min", "mul", "new_zeros", "norm", "permute", "pow", "relu", "repeat", "reshape",
     "rsample", "scatter", "sigmoid", "softmax", "sqrt", "squeeze", "sub", "sum", "tanh", "transpose",
     "unsqueeze", "view", "entropy"}
)  # fmt: skip
"""Methods of tensors and distributions, where nothing is known of the object."""


def makes_passes(script: Script, loop: ast.For | ast.While) -> bool:
    """Whether a module is called, or gradients are taken, on each turn of a Python loop."""
    last = loop.end_lineno or loop.lineno
    return any(loop.lineno <= line <= last for line in _passes(script))


def on_tensors(script: Script, call: Call) -> bool:
    """Whether a call works on tensors, or leads to lines of the script, which answer for themselves."""
    if call.name.startswith("torch.") or (call.receiver_type or "").startswith("torch."):
        return True
    if call.method in _PLAIN | _TENSORS or call.method in _functions(script):
        return True
    return call.method == "sample" and not call.node.args and not call.node.keywords


@once
def _passes(script: Script) -> tuple[int, ...]:
    return tuple(
        call.span.line
        for call in script.calls
        if call.method == "backward"
        or call.name.startswith(_PASSES)
        or (call.method == "__call__" and (call.receiver_type or "").startswith("torch.nn."))
    )


@once
def _functions(script: Script) -> frozenset[str]:
    return frozenset(node.name for node in nodes(script, ast.FunctionDef, ast.AsyncFunctionDef))
