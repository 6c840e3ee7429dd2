"""A preflight of an earlier day, read back from the JSON report that it wrote."""

import dataclasses
import math
import types
from collections.abc import Mapping
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any, Union, get_args, get_origin, get_type_hints

from gpudoctor.lang import say
from gpudoctor.model.external_files import load_json, read_file
from gpudoctor.model.read_limits import PREFLIGHT_REPORT
from gpudoctor.model.signs.preflight import Preflight
from gpudoctor.model.unavailable import Unavailable


def read_preflight(path: Path) -> Preflight:
    """What the report measured. Raises `Unavailable` with a clause for a file that is none."""
    try:
        report = load_json(read_file(path, PREFLIGHT_REPORT))
    except OSError as error:
        raise Unavailable(
            say("{path} cannot be read: {strerror}", path=path, strerror=error.strerror or error)
        ) from error
    except ValueError as error:
        raise Unavailable(say("{path} is not JSON: {error}", path=path, error=error)) from error
    part = report.get("preflight") if isinstance(report, dict) else None
    if not isinstance(part, dict):
        raise Unavailable(say("{path} is not a report of gpudoctor preflight --format json", path=path))
    try:
        found: Preflight = _value(Preflight, part)
    except (TypeError, ValueError, KeyError) as error:
        raise Unavailable(
            say("{path} has a part that a preflight does not have: {error}", path=path, error=error)
        ) from error
    if not {item.node for item in found.units} <= set(range(len(found.nodes))):
        raise Unavailable(say("{path} has a unit on a node that it does not name", path=path))
    return found


@cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


def _value(kind: Any, given: Any) -> Any:
    """A value of the annotated kind; fields that a later version added are left out. Raises `TypeError`."""
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        if not isinstance(given, dict):
            raise TypeError(say("{kind} is not an object", kind=kind.__name__))
        hints = _hints(kind)
        return kind(**{name: _value(hints[name], item) for name, item in given.items() if name in hints})
    origin = get_origin(kind)
    if origin in (Union, types.UnionType):
        if given is None:
            return None
        return _value(next(item for item in get_args(kind) if item is not type(None)), given)
    if origin is tuple:
        if not isinstance(given, list):
            raise TypeError("a list is missing")
        first, *more = get_args(kind)
        if more == [Ellipsis]:
            return tuple(_value(first, item) for item in given)
        return tuple(_value(each, item) for each, item in zip((first, *more), given, strict=True))
    if origin is Mapping:
        if not isinstance(given, dict):
            raise TypeError("an object is missing")
        inner = get_args(kind)[1]
        return {str(key): _value(inner, item) for key, item in given.items()}
    if isinstance(kind, type) and issubclass(kind, Enum):
        return kind(given)
    if kind is float and isinstance(given, int | float) and not isinstance(given, bool):
        if not math.isfinite(given):
            raise ValueError("a number is not finite")
        return float(given)
    if isinstance(kind, type) and type(given) is kind:
        return given
    raise TypeError(
        say("{given!r} is not {getattr}", given=given, getattr=getattr(kind, "__name__", kind))[:120]
    )
