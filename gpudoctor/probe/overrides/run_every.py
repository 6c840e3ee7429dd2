"""Statements that run every so many steps: the source of one line, rewritten when it is compiled."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Iterator
from typing import Any

# Where in a module a line is, and whether what a statement gives decides anything of the training.

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
    assigned = [node for node in ast.walk(around) if isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign))]
    while True:
        more = {
            name for node in assigned if node.value is not None and _uses(node.value, found) for name in targets(node)
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


# An expression statement or a loop runs when its turn has come. A statement that gives something (an
# assignment, a `return`) gives what it gave last, so that no name stays unbound. Whatever would change the flow
# of control is left.

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


def _statement_trains(loop: ast.For) -> bool:
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
        if isinstance(statement, ast.For) and _statement_trains(statement):
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
