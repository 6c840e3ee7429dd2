"""Operators on things: arithmetic on known values, tensors, dicts."""

import ast
import operator
from collections.abc import Callable
from typing import Any

from gpudoctor.model.signs.source import Literal
from gpudoctor.vitals.source.joins import join_devices
from gpudoctor.vitals.source.values import BATCH, MISSING, TENSOR, AbstractValue, tensor

LARGEST = 10**18


_LONGEST = 4096


_OPERATORS: dict[type[ast.operator], Callable[..., Literal]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
}


def arithmetic(op: ast.operator, left: AbstractValue, right: AbstractValue) -> AbstractValue:
    """The result of an operator on two things."""
    if left.type in (TENSOR, BATCH) or right.type in (TENSOR, BATCH):
        device = join_devices(_place(left), _place(right))
        return tensor("cuda" if "cuda" in (left.device, right.device) else device, left.graph or right.graph)
    if left.known and right.known:
        value = _computed(op, left.value, right.value)
        if value is not MISSING:
            origin = left.origin if left.origin != "literal" else right.origin
            return AbstractValue(value=value, origin=origin, option=left.option or right.option)
    if isinstance(op, ast.BitOr) and (left.keys is not None or right.keys is not None):
        return merged_keys(left, right)
    if left.items is not None and right.items is not None and isinstance(op, ast.Add):
        return AbstractValue(items=(left.items + right.items)[:100])
    if left.test or right.test:
        return AbstractValue(type="number", option=left.option or right.option)
    number = left.type == "number" or right.type == "number" or left.known or right.known
    return AbstractValue(type="number" if number else None, option=left.option or right.option)


def _place(thing: AbstractValue) -> str | None:
    return thing.device if thing.type in (TENSOR, BATCH) else None


def merged_keys(left: AbstractValue, right: AbstractValue) -> AbstractValue:
    """`left | right`, `{**left, **right}` of dicts."""
    keys = {**(left.keys or {}), **(right.keys or {})}
    return AbstractValue(keys=keys, open=left.keys is None or right.keys is None or left.open or right.open)


def _computed(op: ast.operator, left: Any, right: Any) -> Any:
    function = _OPERATORS.get(type(op))
    numbers = isinstance(left, int | float) and isinstance(right, int | float)
    if function is None or not (
        numbers or (isinstance(op, ast.Add) and isinstance(left, str) and isinstance(right, str))
    ):
        return MISSING
    if isinstance(op, ast.Pow | ast.LShift | ast.RShift) and not (-64 <= right <= 64 and abs(left) <= 1e6):
        return MISSING
    try:
        value = function(left, right)
    except (ArithmeticError, TypeError, ValueError):
        return MISSING
    if isinstance(value, str):
        return value if len(value) <= _LONGEST else MISSING
    if isinstance(value, bool | float):
        return value
    return value if isinstance(value, int) and abs(value) < LARGEST else MISSING
