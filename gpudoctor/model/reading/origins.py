"""Where an object comes from: the library's call that made it, through method chains, items and names."""

import ast
from collections.abc import Mapping

from gpudoctor.model.reading.classes import of_program
from gpudoctor.model.reading.once import once
from gpudoctor.model.reading.program import enclosing
from gpudoctor.model.reading.syntax import nodes
from gpudoctor.model.signs.source import Call, Script, Source

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


def origin(source: Source, script: Script, node: ast.expr, depth: int = 8) -> str | None:
    """The library at the root of an object, `pandas` of `pd.read_csv(x)["text"]`.

    "" stands for the program's own class or function, None for what cannot be found: a parameter, a name with
    several different values.
    """
    for _ in range(30):
        if isinstance(node, ast.Subscript | ast.Starred | ast.Await):
            node = node.value
        elif isinstance(node, ast.Call):
            call = _by_node(script).get(node)
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
        for value in _bound(script).get((_home(script, node), node.id), ())
        if not _names(value, node.id)
    }
    return found.pop() if len(found) == 1 else None


def construction(script: Script, node: ast.expr) -> Call | None:
    """The one call that made an object, named in the same function or module, or written in place; None where
    its name gets another value anywhere, or is a parameter.
    """
    if isinstance(node, ast.Call):
        return _by_node(script).get(node)
    if not isinstance(node, ast.Name):
        return None
    home = _home(script, node)
    places = [home] if home is None else [home, None]
    for place in places:
        values = _bound(script).get((place, node.id), [])
        stored = _stored(script).get((place, node.id), 0)
        if stored:
            alone = len(values) == stored == 1 and isinstance(values[0], ast.Call)
            return _by_node(script).get(values[0]) if alone else None
    return None


def _plain(script: Script, call: Call) -> bool:
    """Whether a call is one of a function or class, not of a method of some object."""
    if call.name.startswith("?"):
        return False
    root = call.receiver.partition(".")[0]
    return not call.receiver or root in script.imports


def _names(value: ast.expr, name: str) -> bool:
    """Whether a value is made from the object that the name had: `d = d.map(f)`."""
    return any(isinstance(part, ast.Name) and part.id == name for part in ast.walk(value))


def _home(script: Script, node: ast.AST) -> ast.AST | None:
    return next((above for above in enclosing(script, node) if isinstance(above, _FUNCTIONS)), None)


@once
def _by_node(script: Script) -> Mapping[ast.AST, Call]:
    return {call.node: call for call in script.calls}


@once
def _bound(script: Script) -> Mapping[tuple[ast.AST | None, str], list[ast.expr]]:
    """Values that names are bound to, by function and name."""
    found: dict[tuple[ast.AST | None, str], list[ast.expr]] = {}
    for node in nodes(script, ast.Assign, ast.AnnAssign):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        for target in targets:
            if isinstance(target, ast.Name) and node.value is not None:
                found.setdefault((_home(script, node), target.id), []).append(node.value)
    return found


@once
def _stored(script: Script) -> Mapping[tuple[ast.AST | None, str], int]:
    """How often a name is bound in a function, parameters included."""
    found: dict[tuple[ast.AST | None, str], int] = {}
    for node in nodes(script, ast.Name, ast.arg):
        if isinstance(node, ast.arg) or isinstance(node.ctx, ast.Store):
            key = _home(script, node), node.arg if isinstance(node, ast.arg) else node.id
            found[key] = found.get(key, 0) + 1
    return found
