"""`memory_format.channels_last`: weights and images of a convolutional network, channels innermost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .first_forward import at_first_forward
from .patching import truth

if TYPE_CHECKING:
    from . import Trial


def apply(trial: Trial, _detail: str, value: Any) -> None:
    """Convert the model before its first forward, and each batch of images after it."""
    if not truth(value):
        return
    torch = trial.torch

    def convert(module: Any) -> None:
        module.to(memory_format=torch.channels_last)
        module.register_forward_pre_hook(lambda _module, args: tuple(map(innermost, args)))
        trial.reached("memory_format.channels_last")

    def innermost(item: Any) -> Any:
        if isinstance(item, torch.Tensor) and item.dim() == 4:
            return item.contiguous(memory_format=torch.channels_last)
        return item

    at_first_forward(trial, convert)
