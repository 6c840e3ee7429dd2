"""Dataclasses of the model from plain data, as JSON has it: strict about types, silent about unknown fields."""

import dataclasses
import math
import types
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from functools import cache, partial
from typing import Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

Kind = TypeVar("Kind")


def from_plain(kind: type[Kind], given: Any) -> Kind:
    """A value of the annotated kind: dataclass, enum by value, tuple, mapping, optional or scalar.

    Fields that a later version added are left out; one that is missing or null has its default. Raises `TypeError` or
    `ValueError` that says which field is wrong, `units.3.figures.0.value: 'fast' is not float`.
    """
    return cast(Kind, _reader(cast(Any, kind))(given))


Reader = Callable[[Any], Any]


@cache  # what a kind asks for is looked up once
def _reader(kind: Any) -> Reader:
    """A function that reads one value of this kind."""
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        return partial(_dataclass, kind)
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        kinds = [item for item in inner if item is not type(None)]
        present = _reader(kinds[0] if len(kinds) == 1 else Any)  # which one of several, only its maker knows
        return lambda given: None if given is None else present(given)
    if origin is tuple and inner[1:] == (Ellipsis,):
        return partial(_list, _reader(inner[0]))
    if origin is tuple:
        return partial(_row, [_reader(item) for item in inner])
    if origin is Mapping:
        return partial(_mapping, _reader(inner[1]))
    if isinstance(kind, type) and issubclass(kind, Enum):
        return cast(Reader, kind)
    if kind is Any:
        return lambda given: given
    return _float if kind is float else partial(_scalar, kind)


@cache
def _fields(kind: type) -> Mapping[str, Reader]:
    """The readers of a dataclass's fields; looked up when one is read, since a kind may hold itself."""
    return {name: _reader(hint) for name, hint in get_type_hints(kind).items()}


def _dataclass(kind: Any, given: Any) -> Any:
    if isinstance(given, kind):
        return given
    readers = _fields(kind)
    if not isinstance(given, dict):
        raise TypeError(_wrong(given, kind.__name__))
    default = {item.name for item in dataclasses.fields(kind) if item.default is not dataclasses.MISSING}
    read = {name: item for name, item in given.items() if name in readers and not (item is None and name in default)}
    return kind(**{name: _at(name, readers[name], item) for name, item in read.items()})


def _list(reader: Reader, given: Any) -> Any:
    if not isinstance(given, list | tuple):
        raise TypeError(_wrong(given, "a list"))
    return tuple(_at(place, reader, item) for place, item in enumerate(given))


def _row(readers: Sequence[Reader], given: Any) -> Any:
    if not isinstance(given, list | tuple) or len(given) != len(readers):
        raise TypeError(_wrong(given, f"a list of {len(readers)}"))
    return tuple(_at(place, *pair) for place, pair in enumerate(zip(readers, given, strict=True)))


def _mapping(reader: Reader, given: Any) -> Any:
    if not isinstance(given, dict):
        raise TypeError(_wrong(given, "an object"))
    return {str(key): _at(key, reader, item) for key, item in given.items()}


def _float(given: Any) -> float:
    if isinstance(given, bool) or not isinstance(given, int | float):
        raise TypeError(_wrong(given, "float"))
    if not math.isfinite(given):
        raise ValueError(f"{given} is not finite")
    return float(given)


def _scalar(kind: Any, given: Any) -> Any:
    if type(given) is not kind and not (kind is str and isinstance(given, str)):  # a template's text is a str
        raise TypeError(_wrong(given, getattr(kind, "__name__", str(kind))))
    return given


def _at(place: object, reader: Reader, given: Any) -> Any:
    """The value of a field or an item; an error begins with its place."""
    try:
        return reader(given)
    except (TypeError, ValueError) as error:
        words = str(error)
        joint = "." if ": " in words and " " not in words.partition(": ")[0] else ": "  # a place stands before a place
        raise type(error)(f"{place}{joint}{words}") from None


def _wrong(given: Any, wanted: str) -> str:
    return f"{given!r:.60} is not {wanted}"
