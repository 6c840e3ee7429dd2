"""`gc.collect`, `gc.empty_cache`, `gc.synchronize`: explicit collections, flushes and waits that do nothing."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Any

from .patching import truth, wrap

if TYPE_CHECKING:
    from . import Trial


def apply(trial: Trial, detail: str, value: Any) -> None:
    """Switch one of them off."""
    if truth(value):
        return
    owners = {"collect": (gc,), "empty_cache": (trial.torch.cuda,), "synchronize": (trial.torch.cuda,)}
    for owner in owners[detail]:
        wrap(owner, detail, lambda original: _nothing(trial, detail, original))


def _nothing(trial: Trial, detail: str, original: Any) -> Any:
    def nothing(*args: Any, **kwargs: Any) -> Any:
        if not trial.probe.steps.index:  # before training it is nobody's harm
            return original(*args, **kwargs)
        trial.reached(f"gc.{detail}")
        return 0 if detail == "collect" else None

    return nothing
