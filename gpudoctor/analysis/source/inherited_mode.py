"""The mode that a model is in where a function takes it over, by what ran before."""

import ast
from collections.abc import Mapping

from gpudoctor.analysis.memo import once
from gpudoctor.analysis.source.control_flow import callers, calls_function
from gpudoctor.analysis.source.optimizers import follows
from gpudoctor.analysis.source.scopes import handed
from gpudoctor.analysis.source.syntax import nodes
from gpudoctor.analysis.source.train_eval_mode import model_of, switches_to_eval, switches_to_train
from gpudoctor.model.signs.source import Call, Script, Source

_DEPTH = 4


def left_in_eval_mode(
    source: Source, script: Script, function: str, node: ast.AST, model: str, depth: int = _DEPTH
) -> bool:
    """Whether a model is in eval mode at a place: what ran before left it so, here or at every caller."""
    start = (getattr(node, "lineno", 0), getattr(node, "col_offset", 0))
    for call in reversed(script.calls):
        if call.function == function and (call.node.lineno, call.node.col_offset) < start:
            mode = _leaves(source, call, model, depth)
            if mode is not None:
                return mode == "eval" and follows(script, node, call.node)
    sites = callers(source, function) if depth else []
    given = [_argument(source, function, site, model) for _, site in sites]
    return bool(sites) and all(
        text is not None and left_in_eval_mode(source, other, site.function, site.node, text, depth - 1)
        for (other, site), text in zip(sites, given, strict=True)
    )


def _leaves(source: Source, call: Call, model: str, depth: int) -> str | None:
    """The mode that a call leaves a model in, `eval` or `train`; None where it does not set it.

    `train`, too, where it may be either: a switch behind a condition, functions of one name that differ.
    """
    if switches_to_eval(call) or switches_to_train(call):
        if model_of(call) != model:
            return None
        return "eval" if switches_to_eval(call) and not call.guards else "train"
    found = set()
    for script, function in _functions(source).get(call.method, ()) if depth else ():
        if not calls_function(call, function):
            continue
        name = _parameter(source, function, call, model)
        if name is None and model in {ast.unparse(item) for item in call.node.args}:
            return "train"  # one of several functions of that name: nobody can tell what it does
        for inner in reversed(script.calls) if name is not None else ():
            mode = _leaves(source, inner, name, depth - 1) if inner.function == function and name else None
            if mode is not None:
                found.add(mode if not inner.guards else "train")
                break
    return None if not found else "eval" if found == {"eval"} else "train"


def _argument(source: Source, function: str, site: Call, name: str) -> str | None:
    """What a call gives as the model that a function has under a name."""
    if name.startswith("self."):
        return name if site.receiver == "self" else None
    given = _given(source, function, site).get(name)
    return ast.unparse(given).removesuffix(".module") if given is not None else None


def _parameter(source: Source, function: str, site: Call, model: str) -> str | None:
    """The name under which a function has a model that a call gives it."""
    if model.startswith("self.") and site.receiver == "self":
        return model
    for parameter, given in _given(source, function, site).items():
        if ast.unparse(given).removesuffix(".module") == model:
            return parameter
    return None


def _given(source: Source, function: str, site: Call) -> Mapping[str, ast.expr]:
    """The parameters of a function with what a call gives for them."""
    last = function.rpartition(".")[2]
    nodes_found = _definitions(source).get(last, [])
    return (handed(nodes_found[0], site.node) or {}) if len(nodes_found) == 1 else {}


@once
def _definitions(source: Source) -> Mapping[str, list[ast.FunctionDef]]:
    """The functions and methods of a program by their last names."""
    found: dict[str, list[ast.FunctionDef]] = {}
    for script in source.scripts:
        for node in nodes(script, ast.FunctionDef):
            found.setdefault(node.name, []).append(node)
    return found


@once
def _functions(source: Source) -> Mapping[str, list[tuple[Script, str]]]:
    """The functions of a program that call something, by their last names."""
    found: dict[str, list[tuple[Script, str]]] = {}
    for script in source.scripts:
        for function in sorted({call.function for call in script.calls if call.function}):
            found.setdefault(function.rpartition(".")[2], []).append((script, function))
    return found
