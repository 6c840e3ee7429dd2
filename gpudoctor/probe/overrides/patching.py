"""How overrides replace what belongs to others."""

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
