"""`attention.implementation`: `sdpa`, `flash_attention_2` or `eager` for a model of transformers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .first_forward import at_first_forward, inner

if TYPE_CHECKING:
    from . import Trial


def apply(trial: Trial, _detail: str, value: Any) -> None:
    """Set it on the model before its first forward."""

    def switch(module: Any) -> None:
        for part in inner(module).modules():
            if hasattr(part, "set_attn_implementation"):
                part.set_attn_implementation(str(value))
                trial.reached("attention.implementation")
                return

    at_first_forward(trial, switch)
