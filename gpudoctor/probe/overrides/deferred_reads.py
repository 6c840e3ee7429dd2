"""Reads of tensors that are put off, so that the host waits for the device only once in a while."""

from __future__ import annotations

import ast
import builtins
import operator
from collections.abc import Callable
from typing import Any

from .run_every import DUE, PERIODS, called, innermost, last_name, only_watched, scope, shows, targets, trains

# A running sum that stays on the device until somebody looks at it.


class Sum:
    """A number of Python and a tensor that is still to be added; never changed in place."""

    __slots__ = ("_base", "_pending")

    def __init__(self, base: Any, pending: Any) -> None:
        self._base = base
        self._pending = pending

    def plus(self, tensor: Any) -> Sum:
        """The sum with another tensor; nothing is read."""
        if self._pending is None:
            return Sum(self._base, tensor)
        return Sum(self._base, self._pending + tensor)

    def number(self) -> Any:
        """What Python's own sum would be: the device is waited for, once."""
        if self._pending is not None:
            self._base, self._pending = self._base + self._pending.item(), None
        return self._base

    def __float__(self) -> float:
        return float(self.number())

    def __int__(self) -> int:
        return int(self.number())

    def __bool__(self) -> bool:
        return bool(self.number())

    def __hash__(self) -> int:
        return hash(self.number())

    def __repr__(self) -> str:
        return repr(self.number())

    def __format__(self, how: str) -> str:
        return format(self.number(), how)

    def __round__(self, digits: int | None = None) -> Any:
        return round(self.number(), digits)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.number(), name)


def added(total: Any, value: Any) -> Any:
    """`total + value`; a tensor is not read where the total is a plain number or such a sum."""
    if not hasattr(value, "detach"):
        return total + value
    if type(total) in (int, float):
        return Sum(total, value)
    return total.plus(value) if isinstance(total, Sum) else total + value.item()


def _forward(function: Callable[..., Any]) -> Callable[[Sum, Any], Any]:
    return lambda self, other: function(self.number(), other.number() if isinstance(other, Sum) else other)


def _backward(function: Callable[..., Any]) -> Callable[[Sum, Any], Any]:
    return lambda self, other: function(other, self.number())


def _alone(function: Callable[..., Any]) -> Callable[[Sum], Any]:
    return lambda self: function(self.number())


for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow"):
    setattr(Sum, f"__{_name}__", _forward(getattr(operator, _name)))
    setattr(Sum, f"__r{_name}__", _backward(getattr(operator, _name)))
for _name in ("lt", "le", "gt", "ge", "eq", "ne"):
    setattr(Sum, f"__{_name}__", _forward(getattr(operator, _name)))
for _name in ("neg", "pos", "abs"):
    setattr(Sum, f"__{_name}__", _alone(getattr(operator, _name)))


# Only the read is left out, never what is read: `train(batch).item()` still trains. A running sum is added up
# on the device and read when somebody looks at it, so that it is what it was. Any other read gives between its
# turns what it gave last, where the value is watched and no more: what steers the program or reaches a step is
# read as before.

READ, SUMMAND, ADDED = "__gpudoctor_read__", "__gpudoctor_summand__", "__gpudoctor_added__"
_METHODS = {"item", "tolist", "cpu", "numpy"}
_CONVERSIONS = {"float": float, "int": int}
_FORMATS = {"format", "round", "str", "len"}
"""Calls beside reads that a line of output may have."""
_SIMPLE = (ast.Expr, ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Return)


class DeferredReads:
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


READS = DeferredReads()


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
