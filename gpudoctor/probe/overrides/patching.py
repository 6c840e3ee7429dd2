"""How overrides replace what belongs to others: attributes of classes and modules, once."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any


def wrap(owner: Any, name: str, make: Callable[[Any], Any]) -> bool:
    """Put `make(original)` in the place of an attribute; False where there is none."""
    original = owner.__dict__.get(name) if isinstance(owner, type) else getattr(owner, name, None)
    if original is None:
        return False
    new = make(original)
    try:
        functools.update_wrapper(new, original)
    except (AttributeError, TypeError):
        pass
    setattr(owner, name, new)
    return True


def truth(value: Any) -> bool:
    """A setting's text as a truth value: `False`, `0`, `off`, `no` and nothing are false."""
    return str(value).strip().lower() not in {"false", "0", "off", "no", "none", ""}


def plain(value: Any) -> Any:
    """A setting's text as a Python value: number, truth value, None, or the text itself."""
    if not isinstance(value, str):
        return value
    words = {"true": True, "false": False, "none": None, "null": None}
    if value.strip().lower() in words:
        return words[value.strip().lower()]
    for kind in (int, float):
        try:
            return kind(value)
        except ValueError:
            continue
    return value
