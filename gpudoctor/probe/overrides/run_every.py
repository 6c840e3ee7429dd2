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

from .override_sites import innermost, last_name, made_of, scope, steers, targets

DUE, KEPT = "__gpudoctor_due__", "__gpudoctor_kept__"
_FLOW = (ast.Return, ast.Break, ast.Continue, ast.Yield, ast.YieldFrom, ast.Await, ast.Global, ast.Nonlocal)


class Periods:
    """Knows the step, and what each place gave last."""

    def __init__(self) -> None:
        self.loaded: set[str] = set()
        """Real paths of the files that were compiled here."""
        self.trial: Any = None
        """The probe's trial, once it is there."""
        self._last: dict[str, Any] = {}
        self._ran: dict[str, int] = {}
        setattr(builtins, DUE, self.due)
        setattr(builtins, KEPT, self.kept)

    def adopt(self, trial: Any) -> None:
        """The probe is there: steps are counted from now on."""
        self.trial = trial

    def due(self, place: str, period: int) -> bool:
        """Whether a statement's turn has come; a period of 0 never has one.

        Counted from its last turn: a guard around it (`if step % 10 == 0`) has a rhythm of its own.
        """
        trial = self.trial
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


def _trains(loop: ast.For) -> bool:
    calls = (node for node in ast.walk(loop) if isinstance(node, ast.Call))
    return any(last_name(call.func) in {"backward", "step", "training_step"} for call in calls)


def called(function: str, place: str, period: int, *more: ast.expr) -> ast.Call:
    """The call of one of our functions for a place."""
    constants: list[ast.expr] = [ast.Constant(place), ast.Constant(period)]
    return ast.Call(func=ast.Name(function, ast.Load()), args=[*constants, *more], keywords=[])


class Placement:
    """Puts one period at one line."""

    def __init__(self, name: str, line: int, period: int, calls: bool) -> None:
        self._name = name
        self._line = line
        self._period = period
        self._calls = calls

    def place(self, tree: ast.Module) -> bool:
        """Change the innermost statement at the line; whether that could be done."""
        found = innermost(tree, self._line)
        if found is None:
            return False
        body, index = found
        statement = body[index]
        if self._calls and not self._meets(tree, statement):
            return False
        if isinstance(statement, (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Return)):
            return self._keep(statement)
        if isinstance(statement, (ast.If, ast.While)):
            return False
        if any(isinstance(node, _FLOW) for node in ast.walk(statement)):
            return False
        if isinstance(statement, ast.For) and _trains(statement):
            return False  # a finding may show the loop that it is in
        if isinstance(statement, (ast.Expr, ast.For)):
            wrapped = ast.If(test=self._call(DUE), body=[statement], orelse=[])
            ast.copy_location(wrapped, statement)
            body[index] = wrapped
            return True
        return False

    def _meets(self, tree: ast.Module, statement: ast.stmt) -> bool:
        """Whether a call between ranks can be left out by all of them without parting their ways."""
        if not isinstance(statement, (ast.Expr, ast.Assign)):
            return False
        calls = [node for node in ast.walk(statement) if isinstance(node, ast.Call)]
        filled = {ast.unparse(item) for call in calls for item in call.args}
        around = scope(tree, self._line)
        return not steers(around, made_of(around, targets(statement) | filled))

    def _keep(self, statement: Any) -> bool:
        value = statement.value
        if value is None or any(isinstance(node, (*_FLOW, ast.NamedExpr)) for node in ast.walk(value)):
            return False
        arguments = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
        made = ast.Lambda(args=arguments, body=value)
        statement.value = ast.copy_location(self._call(KEPT, made), value)
        return True

    def _call(self, function: str, *more: ast.expr) -> ast.Call:
        return called(function, f"{self._name}:{self._line}", self._period, *more)
