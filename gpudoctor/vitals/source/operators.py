"""Operators on things: arithmetic on known values, tensors, dicts; conversions: `int(x)`, `name.lower()`."""

import ast
from collections.abc import Callable

from gpudoctor.vitals.source.joins import join_devices
from gpudoctor.vitals.source.values import BATCH, MISSING, NOTHING, TENSOR, AbstractValue, tensor

LARGEST = 10**18


def arithmetic(op: ast.operator, left: AbstractValue, right: AbstractValue) -> AbstractValue:
    """The result of an operator on two things."""
    if left.type in (TENSOR, BATCH) or right.type in (TENSOR, BATCH):
        sides = [side.device if side.type in (TENSOR, BATCH) else None for side in (left, right)]
        device = "cuda" if "cuda" in (left.device, right.device) else join_devices(*sides)
        return tensor(device)
    if isinstance(op, ast.BitOr) and (left.keys is not None or right.keys is not None):
        loose = left.keys is None or right.keys is None or left.open or right.open
        return AbstractValue(keys={**(left.keys or {}), **(right.keys or {})}, open=loose)
    if left.items is not None and right.items is not None and isinstance(op, ast.Add):
        return AbstractValue(items=(left.items + right.items)[:100])
    if left.test or right.test:
        return AbstractValue(type="number", option=left.option or right.option)
    number = left.type == "number" or right.type == "number" or left.known or right.known
    return AbstractValue(type="number" if number else None, option=left.option or right.option)


_FUNCTIONS: dict[str, Callable[..., object]] = {
    kind.__name__: kind for kind in (int, float, bool, str, min, max, abs, round)
}
_KINDS = {"int": "number", "float": "number", "str": "str", "bool": "bool"}
_TEXT: dict[str, Callable[[str], str]] = {"lower": str.lower, "upper": str.upper, "strip": str.strip}
_LONGEST = 100


def converted(name: str, method: str, base: AbstractValue, args: list[AbstractValue]) -> AbstractValue | None:
    """What a call gives that only writes a value in another way; None when it does something else."""
    if base is NOTHING and name in _FUNCTIONS and args:
        return _as_kind(name, args)
    text = base.value
    if method in _TEXT and not args and isinstance(text, str) and len(text) <= _LONGEST:
        return AbstractValue(value=_TEXT[method](text), origin=base.origin, option=base.option)
    return None


def _as_kind(name: str, args: list[AbstractValue]) -> AbstractValue | None:
    option = any(arg.option for arg in args)
    values = [arg.value for arg in args]
    if MISSING in values:
        if args[0].type == "rank":
            return args[0].replace(value=MISSING)
        return AbstractValue(type=_KINDS[name], option=option) if name in _KINDS else None
    try:
        value = _FUNCTIONS[name](*values)
    except (TypeError, ValueError, OverflowError):
        return NOTHING
    if not isinstance(value, (int, float, str)) or len(str(values[0])) > _LONGEST:
        return NOTHING
    origin = next((arg.origin for arg in args if arg.origin != "literal"), "literal")
    return AbstractValue(value=value, origin=origin, option=option)
