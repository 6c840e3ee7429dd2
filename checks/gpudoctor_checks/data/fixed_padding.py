"""Items that pad themselves to a fixed length: `ids + [0] * (self.max_len - len(ids))`."""

import ast
from collections.abc import Iterator

from gpudoctor.analysis.source.control_flow import enclosing
from gpudoctor.analysis.source.syntax import FunctionNode, nodes, walk
from gpudoctor.model.evidence import SourceSpan
from gpudoctor.model.signs.source import ClassInfo, Known, Script


def fixed_padding(script: Script) -> Iterator[tuple[SourceSpan, int]]:
    """Places in `__getitem__` and collate functions that pad to a length that can be told, with that length."""
    if "len(" not in script.text:
        return
    for node in nodes(script, ast.FunctionDef, ast.AsyncFunctionDef):
        if node.name == "__getitem__" or "collate" in node.name:
            for place, limit in _pads(node):
                length = number(script, limit)
                if length is not None:
                    yield script.span(place), length
                    break


def _pads(function: ast.AST) -> Iterator[tuple[ast.AST, ast.expr]]:
    """Each `[pad] * (N - len(x))`, through a name for the difference, with N."""
    gaps = {
        target.id: limit
        for node in walk(function)
        if isinstance(node, ast.Assign) and (limit := _gap(node.value)) is not None
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in walk(function):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult) and isinstance(node.left, ast.List):
            limit = gaps.get(node.right.id) if isinstance(node.right, ast.Name) else _gap(node.right)
            if limit is not None and len(node.left.elts) == 1:
                yield node, limit


def _gap(node: ast.expr) -> ast.expr | None:
    """N of `N - len(x)`."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub) and isinstance(node.right, ast.Call):
        return node.left if ast.unparse(node.right.func) == "len" else None
    return None


def number(script: Script, node: ast.expr) -> int | None:
    """The whole number that an expression is, through constants, defaults, options and `self.x = x`."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, int) and not isinstance(node.value, bool) else None
    if isinstance(node, ast.Name):
        return _named(script, node)
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        if node.value.id != "self":
            return _whole(script.arguments.get(node.attr))
        return _own(script, node)
    return None


def _named(script: Script, node: ast.Name) -> int | None:
    for above in enclosing(script, node):
        if isinstance(above, FunctionNode):
            found = _default(above, node.id)
            if found is not None:
                return found
    for statement in script.tree.body:
        if isinstance(statement, ast.Assign) and any(ast.unparse(item) == node.id for item in statement.targets):
            return number(script, statement.value) if not isinstance(statement.value, ast.Name) else None
    return None


def _own(script: Script, node: ast.Attribute) -> int | None:
    """An attribute that the constructor sets from a number or from a parameter of its own."""
    owner = next((item for item in enclosing(script, node) if isinstance(item, ast.ClassDef)), None)
    info: ClassInfo | None = script.classes.get(owner.name) if owner is not None else None
    init = info.methods.get("__init__") if info is not None else None
    if owner is None or init is None:
        return None
    for statement in ast.walk(init):
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == ast.unparse(node):
            if isinstance(statement.value, ast.Name):
                return _passed(script, owner.name, init, statement.value.id)
            return number(script, statement.value) if isinstance(statement.value, ast.Constant) else None
    return None


def _passed(script: Script, owner: str, init: FunctionNode, name: str) -> int | None:
    """What a constructor's parameter gets: of the calls here the least, else its default."""
    names = [item.arg for item in init.args.args][1:]
    place = names.index(name) if name in names else None
    calls = [call for call in script.calls if call.method == owner]
    values = [_whole(call.argument(name, place)) for call in calls if call.argument(name, place) is not None]
    if calls and values:
        known = [value for value in values if value is not None]
        return min(known) if len(known) == len(values) else None
    return _default(init, name)


def _default(function: FunctionNode, name: str) -> int | None:
    arguments = function.args
    plain = arguments.posonlyargs + arguments.args
    pairs = list(zip(reversed(plain), reversed(arguments.defaults), strict=False))
    pairs += [(item, value) for item, value in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if value]
    for item, value in pairs:
        if item.arg == name and isinstance(value, ast.Constant) and isinstance(value.value, int):
            return value.value
    return None


def _whole(value: object) -> int | None:
    if isinstance(value, Known) and isinstance(value.value, int) and not isinstance(value.value, bool):
        return value.value
    return None
