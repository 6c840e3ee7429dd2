"""Values of the model as plain JSON and back: dataclasses by name, enums, tuples, sets and mappings.

Only classes of `gpudoctor.model` come back: a file from elsewhere can make no other object and run no code.
"""

import dataclasses
import enum
import importlib
import math
import pkgutil
from collections.abc import Mapping, Sequence, Set
from functools import cache, lru_cache
from types import UnionType
from typing import Any, Union, cast, get_args, get_origin, get_type_hints

from gpudoctor.model import Json

_KIND = "$"
_MODEL = "gpudoctor.model."


def encode(value: Any) -> Json:
    """A value as JSON; raises `TypeError` for one that is none of the model's."""
    if isinstance(value, enum.Enum):
        return {_KIND: type(value).__name__, "v": value.name}
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {_KIND: "float", "v": str(value)}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        # What does not count for equality (remembered answers) is no part of the value.
        kept = [item.name for item in dataclasses.fields(value) if item.compare]
        fields = {name: encode(getattr(value, name)) for name in kept}
        return {_KIND: type(value).__name__, **fields}
    if isinstance(value, tuple | list):
        return [encode(item) for item in value]
    if isinstance(value, frozenset | set):
        return {_KIND: "set", "v": sorted((encode(item) for item in value), key=repr)}
    if isinstance(value, dict):
        return {_KIND: "map", "v": [[encode(key), encode(item)] for key, item in value.items()]}
    raise TypeError(f"{type(value).__name__} cannot be recorded")


def decode(value: Json) -> Any:
    """The value again; raises `ValueError` for what no version of ours wrote.

    A field that this version does not know is left out; one that the file lacks has its default.
    """
    if isinstance(value, list):
        return tuple(decode(item) for item in value)
    if not isinstance(value, dict):
        return value
    kind = value.get(_KIND)
    inner = value.get("v")
    if kind == "float":
        return float(str(inner))
    if kind == "set" and isinstance(inner, list):
        return frozenset(decode(item) for item in inner)
    if kind == "map" and isinstance(inner, list):
        return {decode(pair[0]): decode(pair[1]) for pair in inner if isinstance(pair, list)}
    return _object(str(kind), value)


def _object(kind: str, value: dict[str, Json]) -> Any:
    made = classes().get(kind.rpartition(".")[2])  # a name once had its module before it
    if made is None:
        raise ValueError(f"an unknown kind of value: {kind}")
    if issubclass(made, enum.Enum):
        return made[str(value.get("v"))]
    known = hints(kind)
    fields = {name: decode(item) for name, item in value.items() if name in known}
    for name, item in fields.items():
        if not fits(item, known[name]):
            raise ValueError(f"{kind}.{name} is {item!r:.60}, which is not allowed")
    try:
        return made(**fields)
    except TypeError as error:
        raise ValueError(f"{kind}: {error}") from None


@cache
def hints(kind: str) -> dict[str, Any]:
    """Fields of a dataclass of the model that a file may fill, with their types."""
    made = classes()[kind.rpartition(".")[2]]
    every = get_type_hints(made, localns={item.__name__: item for item in classes().values()})
    return {item.name: every[item.name] for item in dataclasses.fields(cast(Any, made)) if item.init and item.compare}


def fits(value: Any, hint: Any) -> bool:
    """Whether a value is what an annotation says; what this does not know of annotations is let pass."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return any(fits(value, one) for one in inner)
    if origin is tuple:
        if not isinstance(value, tuple):
            return False
        if len(inner) == 2 and inner[1] is Ellipsis:
            return all(fits(item, inner[0]) for item in value)
        return len(value) == len(inner) and all(map(fits, value, inner))
    if origin is not None and isinstance(origin, type):
        # Whether a value is a collection, and holds what it should.
        if issubclass(origin, Mapping):
            pairs = value.items() if isinstance(value, dict) else ()
            return isinstance(value, dict) and all(fits(k, inner[0]) and fits(v, inner[1]) for k, v in pairs)
        if issubclass(origin, Set):
            return isinstance(value, frozenset) and all(fits(item, inner[0]) for item in value)
        if issubclass(origin, Sequence):
            return isinstance(value, tuple) and all(fits(item, inner[0]) for item in value)
        return True
    if hint is float:
        return isinstance(value, int | float) and not isinstance(value, bool) and not _far(value)
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool) and not _far(value)
    hint = getattr(hint, "__supertype__", hint)
    return isinstance(value, hint) if isinstance(hint, type) else hint is not None or value is None


def _far(value: float) -> bool:
    """Whether a whole number is beyond all counts."""
    return isinstance(value, int) and not -(1 << 63) <= value < 1 << 64


@lru_cache(maxsize=1)
def classes() -> dict[str, type]:
    """Dataclasses and enums of the model by name: no two have the same (`tests/test_layering.py`)."""
    import gpudoctor.model as model

    found: dict[str, type] = {}
    for entry in pkgutil.walk_packages(model.__path__, _MODEL):
        module = importlib.import_module(entry.name)
        for item in vars(module).values():
            if not isinstance(item, type) or item.__module__ != entry.name:
                continue
            if dataclasses.is_dataclass(item) or issubclass(item, enum.Enum):
                found[item.__name__] = item
    return found
