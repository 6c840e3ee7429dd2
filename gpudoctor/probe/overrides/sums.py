"""A running sum that stays on the device until somebody looks at it."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any


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
