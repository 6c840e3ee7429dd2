"""Where an object comes from: the library's call that made it, through method chains, items and names."""

import ast
from collections.abc import Mapping

from gpudoctor.analysis.memo import once
from gpudoctor.analysis.source.built_classes import of_program
from gpudoctor.analysis.source.control_flow import function_of
from gpudoctor.analysis.source.syntax import is_name, nodes
from gpudoctor.analysis.source.syntax_places import resolved_calls
from gpudoctor.model.signs.source import Call, Script, Source


def origin(source: Source, script: Script, node: ast.expr, depth: int = 8) -> str | None:
    """The library at the root of an object, `pandas` of `pd.read_csv(x)["text"]`.

    "" stands for the program's own class or function, None for what cannot be found: a parameter, a name with
    several different values.
    """
    for _ in range(30):
        if isinstance(node, ast.Subscript | ast.Starred | ast.Await):
            node = node.value
        elif isinstance(node, ast.Call):
            call = resolved_calls(script).get(node)
            if call is not None and _plain(script, call):
                return "" if of_program(source, script, call.name) else call.name.partition(".")[0]
            if not isinstance(node.func, ast.Attribute):
                return None
            node = node.func.value
        elif isinstance(node, ast.Attribute):
            node = node.value
        else:
            break
    if not isinstance(node, ast.Name) or depth <= 0:
        return None
    found = {
        origin(source, script, value, depth - 1)
        for value in _bound(script).get((function_of(script, node), node.id), ())
        if not _names(value, node.id)
    }
    return found.pop() if len(found) == 1 else None


def construction(script: Script, node: ast.expr, depth: int = 4) -> Call | None:
    """The one call that made an object: named in the same function or module, written in place, or given back
    by a function of the script (`train, held_out = sets(args)`).

    None where its name gets another value anywhere, or is a parameter.
    """
    if isinstance(node, ast.Call):
        return resolved_calls(script).get(node)
    if not isinstance(node, ast.Name):
        return None
    home = function_of(script, node)
    for place in [home] if home is None else [home, None]:
        stored = _stored(script).get((place, node.id), 0)
        if stored:
            return _bound_to(script, (place, node.id), depth) if stored == 1 else None
    return None


def _bound_to(script: Script, name: tuple[ast.AST | None, str], depth: int) -> Call | None:
    """The call that made the only value of a name of a function."""
    values = _bound(script).get(name)
    if values:
        made = values[0]
        if not isinstance(made, ast.Call):
            return None
        return _given_back(script, made, None, depth) or resolved_calls(script).get(made)
    whole, place = _unpacked(script).get(name, (None, 0))
    return _given_back(script, whole, place, depth) if isinstance(whole, ast.Call) else None


def _given_back(script: Script, call: ast.Call, position: int | None, depth: int) -> Call | None:
    """What made the value that a function of the script returns in its only `return`, or one of several."""
    name = call.func.id if isinstance(call.func, ast.Name) else ""
    function = next(
        (item for item in script.tree.body if isinstance(item, ast.FunctionDef) and item.name == name), None
    )
    if function is None or depth <= 0:
        return None
    returns = [
        item for item in ast.walk(function) if isinstance(item, ast.Return) and function_of(script, item) is function
    ]
    value = returns[0].value if len(returns) == 1 else None
    if value is None:
        return None
    if position is not None:
        if not isinstance(value, ast.Tuple) or position >= len(value.elts):
            return None
        value = value.elts[position]
    return construction(script, value, depth - 1)


def _plain(script: Script, call: Call) -> bool:
    """Whether a call is one of a function or class, not of a method of some object."""
    if call.name.startswith("?"):
        return False
    root = call.receiver.partition(".")[0]
    return not call.receiver or root in script.imports


def _names(value: ast.expr, name: str) -> bool:
    """Whether a value is made from the object that the name had: `d = d.map(f)`."""
    return any(is_name(part, name) for part in ast.walk(value))


@once
def _bound(script: Script) -> Mapping[tuple[ast.AST | None, str], list[ast.expr]]:
    """Values that names are bound to, by function and name."""
    found: dict[tuple[ast.AST | None, str], list[ast.expr]] = {}
    for node in nodes(script, ast.Assign, ast.AnnAssign):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        for target in targets:
            if isinstance(target, ast.Name) and node.value is not None:
                found.setdefault((function_of(script, node), target.id), []).append(node.value)
    return found


@once
def _unpacked(script: Script) -> Mapping[tuple[ast.AST | None, str], tuple[ast.expr, int]]:
    """Values that names get a part of, `a, b = value`, and which part."""
    found: dict[tuple[ast.AST | None, str], tuple[ast.expr, int]] = {}
    for node in nodes(script, ast.Assign):
        for target in node.targets:
            for place, part in enumerate(target.elts if isinstance(target, ast.Tuple | ast.List) else ()):
                if isinstance(part, ast.Starred):
                    break
                if isinstance(part, ast.Name):
                    found[function_of(script, node), part.id] = node.value, place
    return found


@once
def _stored(script: Script) -> Mapping[tuple[ast.AST | None, str], int]:
    """How often a name is bound in a function, parameters included."""
    found: dict[tuple[ast.AST | None, str], int] = {}
    for node in nodes(script, ast.Name, ast.arg):
        if isinstance(node, ast.arg) or isinstance(node.ctx, ast.Store):
            key = function_of(script, node), node.arg if isinstance(node, ast.arg) else node.id
            found[key] = found.get(key, 0) + 1
    return found
