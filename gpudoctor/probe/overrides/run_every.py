"""`source.every`: statements that run every so many steps, where no edit of the file can do it.

An expression statement or a loop runs when its turn has come. A statement that gives something (an assignment, a
`return`) gives what it gave last, so that no name stays unbound. Whatever would change the flow of control is left.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable
from typing import Any

DUE, KEPT = "__gpudoctor_due__", "__gpudoctor_kept__"
_FLOW = (ast.Return, ast.Break, ast.Continue, ast.Yield, ast.YieldFrom, ast.Await, ast.Global, ast.Nonlocal)
_TRAINS = {"backward", "step", "training_step"}


class Periods:
    """Knows the step, and what each place gave last."""

    def __init__(self) -> None:
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
        if self._trial is None:
            return period > 0
        self._trial.reached("source.every")
        step: int = self._trial.probe.steps.index
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


def place(tree: ast.Module, name: str, line: int, period: int) -> None:
    """Put a period on the innermost statement at a line, if that can be done."""
    found: tuple[list[ast.stmt], int] | None = None
    bodies: list[list[ast.stmt]] = [tree.body]
    while bodies:
        body = bodies.pop()
        for index, item in enumerate(body):
            if item.lineno <= line <= (item.end_lineno or item.lineno):
                found = body, index
                bodies += [inner for field in ("body", "orelse", "finalbody") if (inner := getattr(item, field, None))]
                bodies += [handler.body for handler in getattr(item, "handlers", ())]
    if found is None:
        return
    body, index = found
    statement: Any = body[index]
    arguments: list[ast.expr] = [ast.Constant(f"{name}:{line}"), ast.Constant(period)]
    if isinstance(statement, (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Return)):
        value = statement.value
        if value is None or any(isinstance(node, (*_FLOW, ast.NamedExpr)) for node in ast.walk(value)):
            return
        empty = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
        call = ast.Call(ast.Name(KEPT, ast.Load()), [*arguments, ast.Lambda(args=empty, body=value)], [])
        statement.value = ast.copy_location(call, value)
    elif isinstance(statement, (ast.Expr, ast.For)) and not any(
        isinstance(node, _FLOW) for node in ast.walk(statement)
    ):
        calls = [node.func for node in ast.walk(statement) if isinstance(node, ast.Call)]
        names = {item.attr if isinstance(item, ast.Attribute) else getattr(item, "id", "") for item in calls}
        if isinstance(statement, ast.For) and names & _TRAINS:
            return  # a finding may show the loop that it is in
        turn = ast.If(test=ast.Call(ast.Name(DUE, ast.Load()), arguments, []), body=[statement], orelse=[])
        body[index] = ast.copy_location(turn, statement)
