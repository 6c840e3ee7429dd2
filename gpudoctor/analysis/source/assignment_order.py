"""Which of several assignments to a name may have given it what it holds at a place."""

import ast
from collections.abc import Iterable

from gpudoctor.analysis.source.control_flow import enclosing
from gpudoctor.analysis.source.syntax import LoopNode
from gpudoctor.model.signs.source import Script

_THROUGH = (ast.With, ast.AsyncWith)
"""Blocks that always run when they are met."""


def may_hold_at(script: Script, given: ast.stmt, others: Iterable[ast.stmt], at: ast.AST) -> bool:
    """Whether what one assignment gives a name may be there at a place of the same function.

    It is not where the place comes first and no loop leads back to it, and not where another assignment to the
    name always runs in between. `others` are the name's other assignments.
    """
    around = [at, *enclosing(script, at)]
    if _starts(at) <= _starts(given) and given not in around:
        return any(isinstance(node, LoopNode) and node in around for node in enclosing(script, given))
    return not any(
        _starts(given) < _starts(other)
        and _starts(other) < _starts(at)
        and other not in around
        and _always(script, other, around)
        for other in others
    )


def _always(script: Script, statement: ast.stmt, around: list[ast.AST]) -> bool:
    """Whether a statement has always run when a later place, with what is around it, is reached."""
    block: ast.AST = statement
    for above in enclosing(script, statement):
        if any(part in around for part in _siblings(above, block)):
            return True
        if not isinstance(above, _THROUGH):
            return False
        block = above
    return False


def _siblings(above: ast.AST, block: ast.AST) -> list[ast.stmt]:
    """The statements of the list that holds one."""
    for name in ("body", "orelse", "finalbody"):
        found = getattr(above, name, None)
        if isinstance(found, list) and block in found:
            return found
    return []


def _starts(node: ast.AST) -> tuple[int, int]:
    return getattr(node, "lineno", 0), getattr(node, "col_offset", 0)
