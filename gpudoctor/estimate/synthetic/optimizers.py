"""The line that makes a job's optimizer, and which package it needs beside torch."""

from gpudoctor.errors import UsageError

RATE = "1e-4"
_TORCH = {
    "adamw": f"torch.optim.AdamW(trained, lr={RATE})",
    "adamw-foreach": f"torch.optim.AdamW(trained, lr={RATE}, foreach=True)",
    "adamw-fused": f"torch.optim.AdamW(trained, lr={RATE}, fused=True)",
    "sgd": f"torch.optim.SGD(trained, lr={RATE})",
    "sgd-momentum": f"torch.optim.SGD(trained, lr={RATE}, momentum=0.9)",
    "adafactor": f"Adafactor(trained, lr={RATE}, relative_step=False, scale_parameter=False)",
}
_BITSANDBYTES = {
    "adamw-8bit": f"bnb.optim.AdamW8bit(trained, lr={RATE})",
    "paged-adamw": f"bnb.optim.PagedAdamW32bit(trained, lr={RATE})",
    "paged-adamw-8bit": f"bnb.optim.PagedAdamW8bit(trained, lr={RATE})",
    "lion": f"bnb.optim.Lion32bit(trained, lr={RATE})",
    "lion-8bit": f"bnb.optim.Lion8bit(trained, lr={RATE})",
}
_TORCHAO = {
    "adamw-ao-8bit": f"AdamW8bit(trained, lr={RATE})",
    "adamw-ao-4bit": f"AdamW4bit(trained, lr={RATE})",
}
WRITTEN = (*_TORCH, *_BITSANDBYTES, *_TORCHAO)
"""Optimizers that a synthetic job can have."""


def needs_of(optimizer: str) -> str | None:
    """The package that an optimizer comes from; None for torch and transformers."""
    return "bitsandbytes" if optimizer in _BITSANDBYTES else "torchao" if optimizer in _TORCHAO else None


def optimizer_lines(optimizer: str) -> list[str]:
    """The statement that makes it over `trained`. Raises `UsageError` for one that cannot be had."""
    made = (_TORCH | _BITSANDBYTES | _TORCHAO).get(optimizer)
    if made is None:
        raise UsageError(
            f"--optimizer {optimizer} is none that a synthetic job can run; it may be {', '.join(WRITTEN)}"
        )
    return [f"optimizer = {made}"]
