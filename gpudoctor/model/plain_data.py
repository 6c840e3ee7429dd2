"""Dataclasses of the model from plain data, as JSON has it: strict about types, silent about unknown fields."""

import dataclasses
import math
import types
from collections.abc import Mapping
from enum import Enum
from functools import cache
from typing import Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

Kind = TypeVar("Kind")


def from_plain(kind: type[Kind], given: Any) -> Kind:
    """A value of the annotated kind: dataclass, enum by value, tuple, mapping, optional or scalar.

    Fields that a later version added are left out; one that is missing has its default. Raises `TypeError` or
    `ValueError` that says which field is wrong, `units.3.figures.0.value: 'fast' is not float`.
    """
    return cast(Kind, _value(kind, given))


@cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


def _value(kind: Any, given: Any) -> Any:
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        return _dataclass(kind, given)
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return None if given is None else _value(next(item for item in inner if item is not type(None)), given)
    if origin is tuple:
        if not isinstance(given, list | tuple):
            raise TypeError(_wrong(given, "a list"))
        if inner[1:] == (Ellipsis,):
            return tuple(_at(place, inner[0], item) for place, item in enumerate(given))
        if len(inner) != len(given):
            raise TypeError(_wrong(given, f"a list of {len(inner)}"))
        return tuple(_at(place, *pair) for place, pair in enumerate(zip(inner, given, strict=True)))
    if origin is Mapping:
        if not isinstance(given, dict):
            raise TypeError(_wrong(given, "an object"))
        return {str(key): _at(key, inner[1], item) for key, item in given.items()}
    if isinstance(kind, type) and issubclass(kind, Enum):
        return kind(given)
    if kind is float and isinstance(given, int | float) and not isinstance(given, bool):
        if not math.isfinite(given):
            raise ValueError(f"{given} is not finite")
        return float(given)
    if type(given) is kind:
        return given
    raise TypeError(_wrong(given, getattr(kind, "__name__", str(kind))))


def _dataclass(kind: Any, given: Any) -> Any:
    if not isinstance(given, dict):
        raise TypeError(_wrong(given, kind.__name__))
    hints = _hints(kind)
    return kind(**{name: _at(name, hints[name], item) for name, item in given.items() if name in hints})


def _at(place: object, kind: Any, given: Any) -> Any:
    """The value of a field or an item; an error begins with its place."""
    try:
        return _value(kind, given)
    except (TypeError, ValueError) as error:
        words = str(error)
        joint = "." if _is_place(words) else ": "
        raise type(error)(f"{place}{joint}{words}") from None


def _is_place(words: str) -> bool:
    """Whether an error names a place already, so that this one comes before it."""
    return ": " in words and " " not in words.partition(": ")[0]


def _wrong(given: Any, wanted: str) -> str:
    return f"{given!r:.60} is not {wanted}"
