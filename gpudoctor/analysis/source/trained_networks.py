"""The networks that a training computes with: those that an optimizer gets and those that a step calls."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from gpudoctor.analysis.source.entry_points import Program
from gpudoctor.analysis.source.optimizers import optimizers
from gpudoctor.analysis.source.scopes import parameters
from gpudoctor.analysis.source.syntax import nodes, parents
from gpudoctor.analysis.source.syntax_places import resolved_calls
from gpudoctor.model.signs.source import Call, Script


@dataclass(frozen=True, slots=True, kw_only=True)
class InTraining:
    """What is known of a program's networks in training."""

    classes: frozenset[str]
    """The program's own classes that they are instances of."""
    names: frozenset[str]
    """What holds them, or what they are made of or handed over as, as written: `model`, `self.net`."""
    told: bool
    """Whether the class of each of them is known, so what is none of these classes is not in training."""


def in_training(program: Program) -> InTraining:
    """The networks of a program that its optimizers get, or that its training steps call with gradients."""
    return program.once("in training", lambda: _in_training(program))


def _in_training(program: Program) -> InTraining:
    classes: set[str] = set()
    names: set[str] = set()
    open_names: set[str] = set()
    for text, owner in (*_given(program), *_called(program)):
        names.add(text)
        if owner is not None:
            classes.add(owner)
        else:
            open_names.add(text)
    return InTraining(
        classes=frozenset(classes),
        names=_with_sources(program, names),
        told=bool(classes) and not open_names,
    )


def _with_sources(program: Program, names: set[str]) -> frozenset[str]:
    """The names, and those they come from: `net` of `model = DDP(net)`, and of `train(net)` for `model`."""
    sources: dict[str, set[str]] = {}
    functions: dict[str, list[list[str]]] = {}
    for script in program.scripts:
        for node in nodes(script, ast.Assign):
            for target in node.targets:
                sources.setdefault(ast.unparse(target), set()).update(_mentioned(node.value))
        for function in nodes(script, ast.FunctionDef):
            functions.setdefault(function.name, []).append(parameters(function))
    for _, call in program.calls:
        for given in functions.get(call.method, ()):
            shift = 1 if given[:1] == ["self"] else 0
            pairs = [*zip(given[shift:], call.node.args, strict=False)]
            pairs += [(item.arg, item.value) for item in call.node.keywords if item.arg in given]
            for name, value in pairs:
                sources.setdefault(name, set()).update(_mentioned(value))
    found, waiting = set(names), list(names)
    while waiting:
        for name in sources.get(waiting.pop(), ()):
            if name not in found:
                found.add(name)
                waiting.append(name)
    return frozenset(found)


def _mentioned(value: ast.expr) -> set[str]:
    """Names that an expression hands on, as written: roots of methods, arguments of wrappers."""
    if isinstance(value, ast.Name | ast.Attribute):
        return {ast.unparse(value)}
    parts: list[ast.expr] = []
    if isinstance(value, ast.Call):
        parts = [value.func.value] if isinstance(value.func, ast.Attribute) else []
        parts += value.args
    elif isinstance(value, ast.IfExp):
        parts = [value.body, value.orelse]
    elif isinstance(value, ast.Tuple | ast.List):
        parts = value.elts
    return {name for part in parts for name in _mentioned(part)}


def _given(program: Program) -> Iterator[tuple[str, str | None]]:
    """What the optimizers get, each as written and with its class."""
    for one in optimizers(program.source):
        calls = resolved_calls(one.script)
        for owner in one.owners:
            call = _asked(one.script, calls, owner)
            text = ast.unparse(owner)
            if text == "self" and call is not None:
                yield text, call.receiver_class or call.function.partition(".")[0]
            else:
                yield text, call.receiver_class if call is not None else None


def _asked(script: Script, calls: object, owner: ast.expr) -> Call | None:
    """The call `owner.parameters()`."""
    above = parents(script).get(owner)
    call = parents(script).get(above) if isinstance(above, ast.Attribute) else None
    return calls.get(call) if isinstance(calls, dict) and call is not None else None


def _called(program: Program) -> Iterator[tuple[str, str | None]]:
    """Networks that training steps call in their own text, each as written and with its class."""
    for _, loop in program.loops:
        for event in loop.events:
            call = event.call
            if call is None or event.evaluation or event.no_grad or event.via or call.receiver_class is None:
                continue
            if isinstance(call.node.func, ast.Name | ast.Attribute) and call.method == "__call__":
                yield ast.unparse(call.node.func), call.receiver_class
