"""Frozen dataclasses with slots, whose methods are compiled when the first instance is made.

A command imports hundreds of such classes and uses some; the standard library compiles six methods of each at once.
"""

from dataclasses import dataclass, field, fields, make_dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing_extensions import dataclass_transform
else:

    def dataclass_transform(**_):
        """For type checkers only."""
        return lambda decorated: decorated


__all__ = ["dataclass", "dataclass_transform", "field", "fields", "frozen", "replace"]
_EQUAL = ("__eq__", "__hash__")
_METHODS = ("__init__", "__repr__", "__setattr__", "__delattr__", "__getstate__", "__setstate__")


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field,))
def frozen(kind: Any = None, /, *, kw_only: bool = True, eq: bool = True) -> Any:
    """As `dataclasses.dataclass(frozen=True, slots=True, kw_only=kw_only, eq=eq)`."""
    if kind is None:
        return partial(frozen, kw_only=kw_only, eq=eq)
    later = [name for name in (*_METHODS, *(_EQUAL if eq else ())) if name not in vars(kind)]
    made: Any = dataclass(init=False, repr=False, eq=False, slots=True, kw_only=kw_only)(kind)
    for name in later:
        setattr(made, name, _completing(made, name, later))
    return made


def _completing(kind: Any, name: str, later: list[str]) -> Any:
    """A method that gives its class the real ones, of the standard library, and calls its own."""

    def method(self: object, *values: Any, **named: Any) -> Any:
        rows = [(item.name, item.type, item) for item in fields(kind)]
        after = {"__post_init__": kind.__post_init__} if hasattr(kind, "__post_init__") else {}
        whole = make_dataclass(kind.__name__, rows, namespace=after, frozen=True, slots=True, eq="__eq__" in later)
        for each in later:
            setattr(kind, each, vars(whole)[each])
        return getattr(kind, name)(self, *values, **named)

    return method
