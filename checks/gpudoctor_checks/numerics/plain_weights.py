"""Tensors that a module initialises like weights and that are no parameters of it, in the source."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from gpudoctor.analysis.source.entry_points import Program
from gpudoctor.analysis.source.syntax import is_attribute, walk
from gpudoctor.model.signs.source import Call, ClassInfo, Script

_MAKERS = frozenset(
    {
        "torch.FloatTensor",
        "torch.Tensor",
        "torch.empty",
        "torch.zeros",
        "torch.ones",
        "torch.rand",
        "torch.randn",
    }
)
_DRAWS = frozenset({"uniform_", "normal_"})
"""Methods that fill a tensor with random numbers, as a layer does with its weights."""


@dataclass(frozen=True, slots=True)
class PlainWeight:
    """One such tensor."""

    script: Script
    owner: str
    """Name of the class."""
    name: str
    """`self.weight`."""
    made: ast.Call
    """What makes the tensor."""
    filled: ast.AST
    """What fills it."""


def plain_weights(program: Program) -> Iterator[PlainWeight]:
    """Those of the modules of a program."""
    for script in program.scripts:
        calls = {id(call.node): call for call in script.calls}
        for info in script.classes.values():
            if any(base.startswith("torch.nn.") and base.endswith("Module") for base in info.bases):
                yield from _of(script, info, calls)


def _of(script: Script, info: ClassInfo, calls: dict[int, Call]) -> Iterator[PlainWeight]:
    inside = [node for method in info.methods.values() for node in walk(method)]
    set_to: dict[str, list[ast.expr]] = {}
    for node in inside:
        if isinstance(node, ast.Assign):
            for target in node.targets:
                set_to.setdefault(ast.unparse(target), []).append(node.value)
    forward = info.methods.get("forward")
    used = (
        {ast.unparse(node) for node in walk(forward) if isinstance(node, ast.Attribute)} if forward else set()
    )
    for name, values in set_to.items():
        made = values[0]
        if (
            not name.startswith("self.")
            or name not in used
            or len(values) != 1
            or not isinstance(made, ast.Call)
        ):
            continue
        call = calls.get(id(made))
        if call is None or call.name not in _MAKERS or "requires_grad" in call.keywords:
            continue
        asks = (f"{name}.requires_grad", f"{name}.requires_grad_")
        if any(isinstance(node, ast.Attribute) and ast.unparse(node) in asks for node in inside):
            continue  # it may be given to the optimizer by itself
        filled = next((node for node in inside if _fills(node, name, calls)), None)
        if filled is not None:
            yield PlainWeight(script, info.name, name, made, filled)


def _fills(node: ast.AST, name: str, calls: dict[int, Call]) -> bool:
    """Whether a call gives a tensor random numbers: `self.weight.data.uniform_()`, `nn.init.normal_(...)`."""
    if not isinstance(node, ast.Call):
        return False
    if is_attribute(node.func, *_DRAWS):
        return ast.unparse(node.func).rpartition(".")[0] in (name, f"{name}.data")
    call = calls.get(id(node))
    random = (
        call is not None
        and call.name.startswith("torch.nn.init.")
        and not call.name.endswith(("ones_", "zeros_"))
    )
    return random and bool(node.args) and ast.unparse(node.args[0]) in (name, f"{name}.data")
