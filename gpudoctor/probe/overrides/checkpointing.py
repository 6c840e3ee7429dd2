"""`checkpointing.enabled`: activation checkpointing off, or on where the model offers it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .first_forward import at_first_forward, inner
from .patching import truth, wrap

if TYPE_CHECKING:
    from . import Trial

_OWN = {"use_reentrant", "preserve_rng_state", "context_fn", "determinism_check", "debug", "early_stop"}


def apply(trial: Trial, _detail: str, value: Any) -> None:
    """Replace `torch.utils.checkpoint.checkpoint`, or ask the model for checkpointing."""
    if truth(value):
        at_first_forward(trial, lambda module: _on(trial, inner(module)))
        return

    def off(module: Any) -> None:
        wrap(module, "checkpoint", lambda _original: _direct(trial))

    trial.probe.when_imported("torch.utils.checkpoint", off)
    trial.probe.when_imported("transformers.modeling_utils", lambda module: _transformers(trial, module))


def _on(trial: Trial, model: Any) -> None:
    model.gradient_checkpointing_enable()
    trial.reached("checkpointing.enabled")


def _direct(trial: Trial) -> Any:
    def checkpoint(function: Any, *args: Any, **kwargs: Any) -> Any:
        trial.reached("checkpointing.enabled")
        return function(*args, **{name: value for name, value in kwargs.items() if name not in _OWN})

    return checkpoint


def _transformers(trial: Trial, module: Any) -> None:
    def enable(_self: Any, *_args: Any, **_kwargs: Any) -> None:
        trial.reached("checkpointing.enabled")

    wrap(module.PreTrainedModel, "gradient_checkpointing_enable", lambda _original: enable)
