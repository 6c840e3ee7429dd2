"""Reads of tensors that are put off, so that the host waits for the device only once in a while.

Only the read is left out, never what is read: `train(batch).item()` still trains. A running sum is added up on
the device and read when somebody looks at it, so that it is what it was. Any other read gives between its turns
what it gave last, where the value is watched and no more: what steers the program or reaches a step is read as
before.
"""

from __future__ import annotations

import ast
import builtins
from typing import Any

from .override_sites import innermost, last_name, only_watched, scope, shows, targets, trains
from .run_every import DUE, PERIODS, called
from .sums import added

READ, SUMMAND, ADDED = "__gpudoctor_read__", "__gpudoctor_summand__", "__gpudoctor_added__"
_METHODS = {"item", "tolist", "cpu", "numpy"}
_CONVERSIONS = {"float": float, "int": int}
_FORMATS = {"format", "round", "str", "len"}
"""Calls beside reads that a line of output may have."""
_SIMPLE = (ast.Expr, ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Return)


class Reads:
    """Keeps what each read gave last, by the shape of what is read."""

    def __init__(self) -> None:
        self._last: dict[tuple[Any, ...], Any] = {}
        setattr(builtins, READ, self.read)
        setattr(builtins, SUMMAND, self.summand)
        setattr(builtins, ADDED, added)

    def read(self, place: str, period: int, at: int, value: Any, how: str) -> Any:
        """What `value.item()` and the like give, now when their turn has come, else the last one."""
        trial = PERIODS.trial
        if trial is None or not isinstance(value, trial.torch.Tensor):
            return _real(value, how)
        if how in ("cpu", "numpy") and value.requires_grad:
            return _real(value, how)  # part of a graph
        key = (place, at, how, value.shape, value.dtype)
        if PERIODS.due(place, period) or key not in self._last:
            self._last[key] = _real(value, how)
        last = self._last[key]
        return list(last) if isinstance(last, list) else last

    def summand(self, place: str, _period: int, _at: int, value: Any, how: str) -> Any:
        """One number on its device, as wide as Python's own; what is no such tensor is read."""
        trial = PERIODS.trial
        if trial is None or not isinstance(value, trial.torch.Tensor) or value.numel() != 1 or how != "item":
            return _real(value, how)
        trial.reached(f"source.reads {place}")
        value = value.detach().reshape(())
        return value.double() if value.is_floating_point() and value.device.type != "mps" else value


READS = Reads()


def defer(tree: ast.Module, name: str, line: int, period: int) -> bool:
    """Put the reads of the statement at a line off; whether there was one that can be."""
    found = innermost(tree, line)
    if found is None:
        return False
    body, index = found
    statement = body[index]
    place = f"{name}:{line}"
    if isinstance(statement, ast.If) and _only_says(statement):
        putting = _Putting(READ, place, period)
        statement.test = putting.visit(statement.test)
        return putting.done
    if not isinstance(statement, _SIMPLE) or _trains(statement):
        return False
    if isinstance(statement, ast.AugAssign) and isinstance(statement.op, ast.Add):
        sum_ = _running_sum(statement, place, period)
        if sum_ is not None:
            body[index] = sum_
            return True
    names = targets(statement)
    if any("param_groups" in item for item in names) or not only_watched(scope(tree, line), names):
        return False
    putting = _Putting(READ, place, period)
    body[index] = putting.visit(statement)
    if not putting.done and isinstance(statement, ast.Expr) and _only_shown(statement.value):
        turn = ast.If(test=called(DUE, place, period), body=[statement], orelse=[])
        body[index] = ast.copy_location(turn, statement)
        return True
    return putting.done


def _running_sum(statement: ast.AugAssign, place: str, period: int) -> ast.stmt | None:
    """`total += loss.item() * n` as `total = added(total, tensor * n)`; None where it is not so simple."""
    if not isinstance(statement.target, ast.Name):
        return None
    parts = [statement.value]
    while parts:
        part = parts.pop()
        if isinstance(part, ast.BinOp) and isinstance(part.op, (ast.Add, ast.Sub, ast.Mult, ast.Div)):
            parts += [part.left, part.right]
        elif isinstance(part, ast.UnaryOp) and isinstance(part.op, (ast.USub, ast.UAdd)):
            parts.append(part.operand)
        elif _reads(part) and not (isinstance(part, ast.Call) and _how(part) == "item"):
            return None
    if not _reads(statement.value):
        return None
    value = _Putting(SUMMAND, place, period).visit(statement.value)
    call = ast.Call(
        func=ast.Name(ADDED, ast.Load()), args=[ast.Name(statement.target.id, ast.Load()), value], keywords=[]
    )
    return ast.copy_location(ast.Assign(targets=[statement.target], value=call), statement)


class _Putting(ast.NodeTransformer):
    """`x.item()` becomes a call that reads `x` when its turn has come."""

    def __init__(self, function: str, place: str, period: int) -> None:
        self._function = function
        self._place = place
        self._period = period
        self._seen = 0
        self.done = False

    def visit_Call(self, node: ast.Call) -> Any:
        """A call, after those inside it."""
        self.generic_visit(node)
        how = _how(node)
        if how is None:
            return node
        self.done = True
        self._seen += 1
        value = node.func.value if isinstance(node.func, ast.Attribute) else node.args[0]
        more = (ast.Constant(self._seen), value, ast.Constant(how))
        return ast.copy_location(called(self._function, self._place, self._period, *more), node)

    def visit_Lambda(self, node: ast.Lambda) -> Any:
        """What runs later is left."""
        return node


def _how(node: ast.Call) -> str | None:
    """The read that a call is: `item`, `float`."""
    if node.keywords:
        return None
    if isinstance(node.func, ast.Attribute) and node.func.attr in _METHODS and not node.args:
        return node.func.attr
    if isinstance(node.func, ast.Name) and node.func.id in _CONVERSIONS and len(node.args) == 1:
        return node.func.id
    return None


def _reads(node: ast.AST) -> bool:
    return any(isinstance(item, ast.Call) and _how(item) for item in ast.walk(node))


def _trains(statement: ast.stmt) -> bool:
    """Whether something that trains is given what is read."""
    calls = [node for node in ast.walk(statement) if isinstance(node, ast.Call)]
    return any(trains(call) and any(map(_reads, (*call.args, *call.keywords))) for call in calls)


def _only_says(statement: ast.If) -> bool:
    """Whether a branch on a read only says something or ends the program with an error."""
    flag = ast.Assign(targets=[ast.Name("__read__", ast.Store())], value=ast.Constant(0))
    branch = ast.If(test=ast.Name("__read__", ast.Load()), body=statement.body, orelse=statement.orelse)
    return only_watched(ast.Module(body=[flag, branch], type_ignores=[]), {"__read__"})


def _only_shown(value: ast.expr) -> bool:
    """`print(loss)`: the read is in the printing; nothing else is called there."""
    calls = [node for node in ast.walk(value) if isinstance(node, ast.Call)]
    if not calls or calls[0] is not value or not shows(calls[0]):
        return False
    return all(last_name(node.func) in _FORMATS for node in calls[1:])


def _real(value: Any, how: str) -> Any:
    if how in _CONVERSIONS:
        return _CONVERSIONS[how](value)
    return getattr(value, how)()
