"""`torch.compile`: the model compiled in place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .first_forward import at_first_forward

if TYPE_CHECKING:
    from . import Trial


def apply(trial: Trial, _detail: str, value: Any) -> None:
    """`model` with the default mode, or a mode of `torch.compile`."""
    options = {} if str(value).lower() in {"model", "true", "default"} else {"mode": str(value)}

    def compile_(module: Any) -> None:
        module.compile(**options)
        trial.reached("torch.compile")

    at_first_forward(trial, compile_)
