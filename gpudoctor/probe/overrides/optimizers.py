"""`optimizer.fused`, `optimizer.foreach`: how the optimizer goes over its parameters."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from .patching import truth, wrap

if TYPE_CHECKING:
    from . import Trial

_OTHER = {"fused": "foreach", "foreach": "fused"}


def apply(trial: Trial, detail: str, value: Any) -> None:
    """Pass the argument to every optimizer of torch that takes it."""
    for kind in vars(trial.torch.optim).values():
        if isinstance(kind, type) and detail in inspect.signature(kind).parameters:
            wrap(kind, "__init__", lambda original: _making(trial, original, detail, truth(value)))


def _making(trial: Trial, original: Any, name: str, value: bool) -> Any:
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        if value:
            kwargs.pop(_OTHER[name], None)
        original(self, *args, **{**kwargs, name: value})
        trial.reached(f"optimizer.{name}")

    return __init__
