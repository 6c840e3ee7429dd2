"""Values of the model as JSON has them; a table says which keys a type has."""

import dataclasses
import math
from collections.abc import Mapping
from enum import Enum
from operator import attrgetter
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from gpudoctor.model import Json

Keys = Mapping[str, str]
"""Type name: its keys, which are names of fields; `key=field.inner` where they differ, `key?` where empty is null."""


def keyed(value: Any, keys: Keys) -> "dict[str, Json]":
    """The fields of a dataclass under their keys; all fields of one that the table does not have."""
    listed = keys.get(type(value).__name__)
    if listed is None:
        return {item.name: plain(getattr(value, item.name), keys) for item in dataclasses.fields(value)}
    found: dict[str, Json] = {}
    for key in listed.split():
        name, _, field = key.rstrip("?").partition("=")
        inner = plain(attrgetter(field or name)(value), keys)
        found[name] = inner or None if key.endswith("?") else inner
    return found


def plain(value: Any, keys: Keys) -> "Json":
    """Any value; a number that is not finite is null: JSON has neither NaN nor infinity."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, bool | int | str):
        return cast("Json", value)
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, Mapping):
        return {str(key): plain(item, keys) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [plain(item, keys) for item in value]
    return keyed(value, keys)
