"""How overrides replace what belongs to others: attributes, once; a model, at its first forward."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import Trial


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


# Something done to the model at its first outermost training forward, once, by a hook that then goes away.


def at_first_forward(trial: Trial, work: Callable[[Any], None]) -> None:
    """Call `work(model)` before the first training forward.

    The model is already being called then: what changes how it is called counts from the second time.
    """
    torch = trial.torch
    handle: Any = None

    def seen(module: Any, _args: Any) -> None:
        if not torch.is_grad_enabled() or not module.training:
            return
        if not any(parameter.requires_grad for parameter in module.parameters()):
            return
        handle.remove()
        work(module)

    handle = torch.nn.modules.module.register_module_forward_pre_hook(seen)


def inner(module: Any) -> Any:
    """The user's model inside a wrapper (DDP, DataParallel)."""
    kind = type(module).__name__
    return module.module if kind in {"DistributedDataParallel", "DataParallel"} else module
