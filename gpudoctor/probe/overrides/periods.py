"""Statements that run every so many steps: the source of one line, rewritten when it is compiled.

An expression statement or a loop runs when its turn has come. A statement that gives something (an
assignment, a `return`) gives what it gave last, so that no name stays unbound. Whatever would change the flow
of control is left.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable
from typing import Any

DUE, KEPT = "__gpudoctor_due__", "__gpudoctor_kept__"
_FLOW = (ast.Return, ast.Break, ast.Continue, ast.Yield, ast.YieldFrom, ast.Await, ast.Global, ast.Nonlocal)


class Periods:
    """Knows the step, and what each place gave last."""

    def __init__(self) -> None:
        self.loaded: set[str] = set()
        """Real paths of the files that were compiled here."""
        self._trial: Any = None
        self._last: dict[str, Any] = {}
        self._ran: dict[str, int] = {}
        setattr(builtins, DUE, self.due)
        setattr(builtins, KEPT, self.kept)

    def adopt(self, trial: Any) -> None:
        """The probe is there: steps are counted from now on."""
        self._trial = trial

    def due(self, place: str, period: int) -> bool:
        """Whether a statement's turn has come; a period of 0 never has one.

        Counted from its last turn: a guard around it (`if step % 10 == 0`) has a rhythm of its own.
        """
        trial = self._trial
        if trial is None:
            return period > 0
        trial.reached(f"source.every {place}")
        step: int = trial.probe.steps.index
        last = self._ran.get(place)
        if period <= 0 or (last is not None and last != step and step - last < period):
            return False
        self._ran[place] = step
        return True

    def kept(self, place: str, period: int, make: Callable[[], Any]) -> Any:
        """A value of now when its turn has come (and the first time), else the last one."""
        if self.due(place, period) or place not in self._last:
            self._last[place] = make()
        return self._last[place]


PERIODS = Periods()


def rewrite(text: str, name: str, periods: list[tuple[int, int]], main: bool = False) -> ast.Module:
    """The syntax tree of a source text with periods at lines; `main` makes it a script's."""
    tree = ast.parse(text, name)
    for line, period in sorted(periods, reverse=True):
        _Placing(name, line, period).place(tree)
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


class _Placing:
    """Puts one period at one line."""

    def __init__(self, name: str, line: int, period: int) -> None:
        self._name = name
        self._line = line
        self._period = period

    def place(self, tree: ast.Module) -> bool:
        """Change the innermost statement at the line; whether that could be done."""
        found = self._innermost(tree)
        if found is None:
            return False
        body, index = found
        statement = body[index]
        if isinstance(statement, (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Return)):
            return self._keep(statement)
        if isinstance(statement, (ast.If, ast.While)):
            return False
        if any(isinstance(node, _FLOW) for node in ast.walk(statement)):
            return False
        if isinstance(statement, (ast.Expr, ast.For)):
            wrapped = ast.If(test=self._call(DUE), body=[statement], orelse=[])
            ast.copy_location(wrapped, statement)
            body[index] = wrapped
            return True
        return False

    def _keep(self, statement: Any) -> bool:
        value = statement.value
        if value is None or any(isinstance(node, (*_FLOW, ast.NamedExpr)) for node in ast.walk(value)):
            return False
        arguments = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
        made = ast.Lambda(args=arguments, body=value)
        statement.value = ast.copy_location(self._call(KEPT, made), value)
        return True

    def _call(self, function: str, *more: ast.expr) -> ast.Call:
        constants: list[ast.expr] = [ast.Constant(f"{self._name}:{self._line}"), ast.Constant(self._period)]
        return ast.Call(func=ast.Name(function, ast.Load()), args=[*constants, *more], keywords=[])

    def _innermost(self, tree: ast.Module) -> tuple[list[ast.stmt], int] | None:
        best: tuple[list[ast.stmt], int] | None = None
        bodies: list[list[ast.stmt]] = [tree.body]
        while bodies:
            body = bodies.pop()
            for index, statement in enumerate(body):
                if not statement.lineno <= self._line <= (statement.end_lineno or statement.lineno):
                    continue
                best = body, index
                for field in ("body", "orelse", "finalbody"):
                    inner = getattr(statement, field, None)
                    if inner:
                        bodies.append(inner)
                bodies += [handler.body for handler in getattr(statement, "handlers", ())]
        return best
