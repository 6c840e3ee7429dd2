"""`lightning.<argument>`: arguments of Lightning's Trainer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .patching import plain, wrap

if TYPE_CHECKING:
    from . import Trial


def apply(trial: Trial, detail: str, value: Any) -> None:
    """Pass the argument to every Trainer."""

    def make(original: Any) -> Any:
        def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
            original(self, *args, **{**kwargs, detail: plain(value)})
            trial.reached(f"lightning.{detail}")

        return __init__

    for module in ("lightning.pytorch.trainer.trainer", "pytorch_lightning.trainer.trainer"):
        trial.probe.when_imported(module, lambda found: wrap(found.Trainer, "__init__", make))
