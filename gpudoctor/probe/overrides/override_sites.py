"""Where in a module a line is, and whether what a statement gives decides anything of the training."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

_SHOWS = {"print", "write", "exit", "abort", "log", "debug", "info", "warning", "warn", "error", "critical"}
"""Calls that only say something, or end the program."""
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


def innermost(tree: ast.Module, line: int) -> tuple[list[ast.stmt], int] | None:
    """The body and the index of the innermost statement at a line."""
    best: tuple[list[ast.stmt], int] | None = None
    bodies: list[list[ast.stmt]] = [tree.body]
    while bodies:
        body = bodies.pop()
        for index, statement in enumerate(body):
            if not statement.lineno <= line <= (statement.end_lineno or statement.lineno):
                continue
            best = body, index
            for field in ("body", "orelse", "finalbody"):
                inner = getattr(statement, field, None)
                if inner:
                    bodies.append(inner)
            bodies += [handler.body for handler in getattr(statement, "handlers", ())]
    return best


def scope(tree: ast.Module, line: int) -> ast.AST:
    """The innermost function around a line, or the module."""
    found: ast.AST = tree
    for node in ast.walk(tree):
        if isinstance(node, _FUNCTIONS) and node.lineno <= line <= (node.end_lineno or node.lineno):
            found = node  # breadth first: the last one is the innermost
    return found


def only_watched(around: ast.AST, names: set[str]) -> bool:
    """Whether these names, and what is made of them, steer nothing in the scope and train nothing."""
    names = made_of(around, names)
    calls = (node for node in ast.walk(around) if isinstance(node, ast.Call))
    return not steers(around, names) and not any(trains(call) and _uses(call, names) for call in calls)


def steers(around: ast.AST, names: set[str]) -> bool:
    """Whether the program goes another way for one of these names.

    A branch may say something, keep a best value or end the program with an error; anything else is steering.
    """
    for node in ast.walk(around):
        if isinstance(node, (ast.If, ast.While)) and _uses(node.test, names):
            if isinstance(node, ast.While) or not all(map(_harmless, (*node.body, *node.orelse))):
                return True
        elif isinstance(node, ast.IfExp) and _uses(node.test, names):
            return True
    return False


def trains(call: ast.Call) -> bool:
    """Whether a call may change weights: a step, a backward, anything in place."""
    name = last_name(call.func)
    return name in {"step", "backward", "copy"} or (name.endswith("_") and not name.endswith("__"))


def shows(call: ast.Call) -> bool:
    """Whether a call only says something: `print`, `log.info`, `bar.set_postfix`."""
    name = last_name(call.func)
    return name in _SHOWS or name.startswith(("set_postfix", "set_description", "log_", "add_scalar"))


def targets(statement: ast.stmt) -> set[str]:
    """The names that a statement assigns: `loss`, `self.loss`, of `log["loss"]` the `log`."""
    found: list[ast.expr] = []
    if isinstance(statement, ast.Assign):
        found = statement.targets
    elif isinstance(statement, (ast.AugAssign, ast.AnnAssign, ast.For)):
        found = [statement.target]
    return {name for target in found for name in _names(target)}


def last_name(function: ast.expr) -> str:
    """`item` of `loss.item`."""
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def _names(target: ast.expr) -> Iterator[str]:
    if isinstance(target, (ast.Tuple, ast.List)):
        for item in target.elts:
            yield from _names(item)
    elif isinstance(target, (ast.Subscript, ast.Starred)):
        yield from _names(target.value)
    elif isinstance(target, (ast.Name, ast.Attribute)):
        yield ast.unparse(target)


def made_of(around: ast.AST, names: set[str]) -> set[str]:
    """The names, and those that are assigned from them in the scope."""
    found = set(names)
    assigned = [
        node for node in ast.walk(around) if isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign))
    ]
    while True:
        more = {
            name
            for node in assigned
            if node.value is not None and _uses(node.value, found)
            for name in targets(node)
        } - found
        if not more:
            return found
        found |= more


def _uses(node: ast.AST, names: set[str]) -> bool:
    parts = (item for item in ast.walk(node) if isinstance(item, (ast.Name, ast.Attribute)))
    return any(ast.unparse(part) in names for part in parts)


def _harmless(statement: ast.stmt) -> bool:
    if isinstance(statement, (ast.Raise, ast.Pass)):
        return True
    if isinstance(statement, ast.Expr):
        value: Any = statement.value
        return isinstance(value, ast.Call) and shows(value)
    if isinstance(statement, ast.If):
        return all(map(_harmless, (*statement.body, *statement.orelse)))
    if isinstance(statement, (ast.Assign, ast.AugAssign)) and statement.value is not None:
        return not any(isinstance(node, ast.Call) for node in ast.walk(statement.value))
    return False
