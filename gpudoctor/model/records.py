"""Frozen dataclasses with slots, whose methods are compiled when the first instance is made.

A command imports hundreds of such classes and uses some; the standard library compiles six methods of each at once.
"""

import dataclasses
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from typing_extensions import dataclass_transform
else:

    def dataclass_transform(**_):
        """For type checkers only."""
        return lambda decorated: decorated


__all__ = ["dataclass", "field", "fields", "frozen", "replace"]
_LATER = ("__init__", "__repr__", "__eq__", "__hash__")


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field,))
def frozen(kind: Any = None, /, *, kw_only: bool = True, eq: bool = True) -> Any:
    """As `dataclasses.dataclass(frozen=True, slots=True, kw_only=kw_only, eq=eq)`."""
    if kind is None:
        return partial(frozen, kw_only=kw_only, eq=eq)
    later = [name for name in _LATER[: 4 if eq else 2] if name not in vars(kind)]
    made: Any = dataclass(init=False, repr=False, eq=False, slots=True, kw_only=kw_only)(kind)
    for name in later:
        setattr(made, name, _completing(made, name, later))
    made.__setattr__ = made.__delattr__ = _refuse
    made.__getstate__, made.__setstate__ = _state, _restore
    return made


def _completing(kind: Any, name: str, later: list[str]) -> Any:
    """A method that gives its class the real ones, of the standard library, and calls its own."""

    def method(self: object, *values: Any, **named: Any) -> Any:
        rows = [(item.name, item.type, item) for item in fields(kind)]
        after = {"__post_init__": kind.__post_init__} if hasattr(kind, "__post_init__") else {}
        whole = dataclasses.make_dataclass(kind.__name__, rows, namespace=after, frozen=True, eq="__eq__" in later)
        for each in later:
            setattr(kind, each, vars(whole)[each])
        return getattr(kind, name)(self, *values, **named)

    return method


def _refuse(self: object, name: str, *_: object) -> NoReturn:  # noqa: ARG001  # as `__setattr__`
    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")


def _state(self: Any) -> list[Any]:
    return [getattr(self, item.name) for item in fields(self)]


def _restore(self: Any, state: list[Any]) -> None:
    for item, value in zip(fields(self), state, strict=True):
        object.__setattr__(self, item.name, value)
