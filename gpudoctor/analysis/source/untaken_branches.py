"""Branches that no call of a function takes: `if held_out is None` where every call gives a number.

And `if split == "val"` where every call gives another word.
"""

import ast
from collections.abc import Iterator

from gpudoctor.analysis.source.control_flow import FUNCTIONS, callers, enclosing, scope_of
from gpudoctor.analysis.source.optimizers import assignments_to
from gpudoctor.analysis.source.scopes import defaults, handed
from gpudoctor.analysis.source.syntax import FunctionNode, is_name, walk
from gpudoctor.model.signs.source import Call, Script, Source

_DEPTH = 3


def never_taken(source: Source, script: Script, call: Call) -> bool:
    """Whether a call stands in a branch for a parameter's None, or for a word, that no caller gives."""
    inside: ast.AST = call.node
    asked: list[tuple[ast.If, str, bool]] = []
    compared: list[tuple[ast.If, str, frozenset[object], bool]] = []
    for above in enclosing(script, call.node):
        if isinstance(above, FUNCTIONS):
            return isinstance(above, FunctionNode) and (
                any(
                    _is_none(source, above, call.function, name) is (not none) and not _set_before(above, name, head)
                    for head, name, none in asked
                )
                or any(
                    _never_one_of(source, above, call.function, name, words, holds)
                    and not _set_before(above, name, head)
                    for head, name, words, holds in compared
                )
            )
        if isinstance(above, ast.If):
            asked += _asks(above, holds=inside in above.body)
            compared += _compares(above, holds=inside in above.body)
        inside = above
    return False


def _asks(head: ast.If, *, holds: bool) -> Iterator[tuple[ast.If, str, bool]]:
    """The name that a condition compares with None, and whether it is None in the branch."""
    match head.test:
        case ast.Compare(
            left=ast.Name(id=name), ops=[ast.Is() | ast.IsNot() as how], comparators=[ast.Constant(value=None)]
        ):
            yield head, name, isinstance(how, ast.Is) == holds


def may_reach(function: FunctionNode, script: Script, call: Call, site: ast.Call) -> bool:
    """Whether a function that is called at `site` may reach a call in its branches, by the words given."""
    given = handed(function, site)
    inside: ast.AST = call.node
    for above in enclosing(script, call.node):
        if above is function or given is None:
            return True
        if isinstance(above, ast.If):
            for head, name, words, holds in _compares(above, holds=inside in above.body):
                value = (defaults(function) | given).get(name)
                told = isinstance(value, ast.Constant) and not _set_before(function, name, head)
                if told and isinstance(value, ast.Constant) and (value.value in words) is not holds:
                    return False
        inside = above
    return True


def _compares(head: ast.If, *, holds: bool) -> Iterator[tuple[ast.If, str, frozenset[object], bool]]:
    """The name that a condition compares with words, the words, and whether it is one of them in the branch."""
    match head.test:
        case ast.Compare(
            left=ast.Name(id=name), ops=[ast.Eq() | ast.NotEq() as how], comparators=[ast.Constant(value=str(word))]
        ):
            yield head, name, frozenset({word}), isinstance(how, ast.Eq) == holds
        case ast.Compare(
            left=ast.Name(id=name),
            ops=[ast.In() | ast.NotIn() as how],
            comparators=[ast.Tuple(elts=parts) | ast.List(elts=parts) | ast.Set(elts=parts)],
        ) if all(isinstance(part, ast.Constant) for part in parts):
            words = frozenset(part.value for part in parts if isinstance(part, ast.Constant))
            yield head, name, words, isinstance(how, ast.In) == holds


def _never_one_of(
    source: Source, function: FunctionNode, qualified: str, name: str, words: frozenset[object], holds: bool
) -> bool:
    """Whether no call gives a parameter one of some words; with `holds` False, whether each call gives one."""
    given = _words(source, function, qualified, name)
    return given is not None and (not given & words if holds else given <= words)


def _words(source: Source, function: FunctionNode, qualified: str, name: str) -> frozenset[object] | None:
    """The words that the calls of a function give for a parameter; None where one is no constant."""
    found: set[object] = set()
    for _, site in _sites(source, qualified):
        given = handed(function, site.node)
        value = (defaults(function) | given).get(name) if given is not None else None
        if not isinstance(value, ast.Constant):
            return None
        found.add(value.value)
    return frozenset(found) or None


def _set_before(function: FunctionNode, name: str, head: ast.If) -> bool:
    """Whether a function changes a parameter before it asks."""
    return any(
        is_name(node, name) and isinstance(node.ctx, ast.Store) and node.lineno < head.lineno for node in walk(function)
    )


def _is_none(source: Source, function: FunctionNode, qualified: str, name: str, depth: int = _DEPTH) -> bool | None:
    """Whether every call of a function gives None for a parameter, or none does; None where nobody can tell."""
    sites = _sites(source, qualified)
    told = {_given(source, script, site, function, name, depth) for script, site in sites}
    return told.pop() if len(told) == 1 else None


def _sites(source: Source, qualified: str) -> list[tuple[Script, Call]]:
    """The calls of a function, or of the class whose `__init__` it is."""
    owner, _, last = qualified.rpartition(".")
    if last == "__init__":
        return [(script, call) for script in source.scripts for call in script.calls if call.method == owner]
    return [
        (script, site)
        for script, site in callers(source, qualified)
        if not _of_another_class(script, site, owner, last)
    ]


def _of_another_class(script: Script, site: Call, owner: str, method: str) -> bool:
    """Whether a call on `self` stands in another class, which has a method of that name itself."""
    own = site.function.partition(".")[0]
    return site.receiver == "self" and own != owner and own in script.classes and method in script.classes[own].methods


def _given(source: Source, script: Script, site: Call, function: FunctionNode, name: str, depth: int) -> bool | None:
    """Whether one call gives None for a parameter."""
    given = handed(function, site.node)
    if given is None:
        return None
    value = (defaults(function) | given).get(name)
    return _value_is_none(source, script, site, value, depth) if value is not None else None


def _value_is_none(source: Source, script: Script, site: Call, value: ast.expr, depth: int) -> bool | None:
    """Whether an argument is None: a constant, a new object, or a name for one."""
    if isinstance(value, ast.Constant):
        return value.value is None
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Name):
        return False if value.func.id[:1].isupper() else None
    scope = scope_of(script, site.node)
    if not isinstance(value, ast.Name) or depth == 0:
        return None
    if _read_from(scope, value):
        return False
    assigned = [item for _, item in assignments_to(scope, value.id)]
    if assigned:
        told = {_value_is_none(source, script, site, item, depth - 1) for item in assigned}
        return told.pop() if len(told) == 1 else None
    if not isinstance(scope, FunctionNode):
        return None
    return _is_none(source, scope, site.function, value.id, depth - 1)


def _read_from(scope: ast.AST, name: ast.Name) -> bool:
    """Whether a function reads attributes of what it hands over, and never asks whether it is None."""
    inside = list(walk(scope))
    asked = any(isinstance(node, ast.Compare) and ast.unparse(node.left) == name.id for node in inside) or any(
        isinstance(node, ast.If | ast.IfExp) and ast.unparse(node.test) == name.id for node in inside
    )
    return not asked and any(
        isinstance(node, ast.Attribute) and is_name(node.value, name.id) and node.lineno < name.lineno
        for node in inside
    )
