"""The source of a script with statements that run every so many steps, and reads that are deferred."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from .deferred_reads import defer
from .run_every import Placement

Change = tuple[int, int, str]
"""Line, period, kind."""


def rewrite(text: str, name: str, changes: Sequence[Change], main: bool = False) -> ast.Module:
    """The syntax tree of a source text with periods at lines; `main` makes it a script's.

    A change is a line, a period and its kind: `every` (any statement), `calls` (what meets the other ranks:
    never a loop, and nothing that decides how a rank goes on), `reads` (`deferred_reads`).
    """
    tree = ast.parse(text, name)
    for line, period, kind in sorted(changes, reverse=True):
        if kind == "reads":
            defer(tree, name, line, period)
        else:
            Placement(name, line, period, calls=kind == "calls").place(tree)
    if main:
        # Run by runpy, a script must still look like one: a spawned child imports it by its path.
        head = ast.parse("__spec__ = None").body[0]
        tree.body.insert(_after_futures(tree), head)
    return ast.fix_missing_locations(tree)


def _after_futures(tree: ast.Module) -> int:
    at = 0
    for index, node in enumerate(tree.body):
        docstring = index == 0 and isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if docstring or (isinstance(node, ast.ImportFrom) and node.module == "__future__"):
            at = index + 1
    return at
