"""Something done to the model at its first outermost training forward, once, by a hook that then goes away."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import Trial


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
