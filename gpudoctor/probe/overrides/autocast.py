"""`autocast.dtype`: forwards and losses of the training in bfloat16 or float16."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .first_forward import at_first_forward

if TYPE_CHECKING:
    from . import Trial


def apply(trial: Trial, _detail: str, value: Any) -> None:
    """The model's own `forward` under autocast; what it returns is float32 again, as accelerate does it."""
    torch = trial.torch
    dtype = {
        "bf16": torch.bfloat16,
        "bfloat16": torch.bfloat16,
        "fp16": torch.float16,
        "float16": torch.float16,
    }[str(value)]

    def under_autocast(module: Any) -> None:
        original = module.forward
        device = next(module.parameters()).device.type

        def forward(*args: Any, **kwargs: Any) -> Any:
            with torch.autocast(device, dtype=dtype):
                result = original(*args, **kwargs)
            return _wide(torch, result)

        module.forward = forward
        trial.reached("autocast.dtype")

    at_first_forward(trial, under_autocast)


def _wide(torch: Any, value: Any) -> Any:
    """The same nest of values with half precision tensors as float32."""
    if isinstance(value, torch.Tensor):
        return value.float() if value.dtype in (torch.bfloat16, torch.float16) else value
    if isinstance(value, dict):
        for key in list(value):
            value[key] = _wide(torch, value[key])
        return value
    if type(value) in (list, tuple):
        return type(value)(_wide(torch, item) for item in value)
    return value
