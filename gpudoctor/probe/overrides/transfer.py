"""`transfer.non_blocking`: copies of pinned batches to the device that the training does not wait for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .patching import truth

if TYPE_CHECKING:
    from . import Trial


def apply(trial: Trial, _detail: str, value: Any) -> None:
    """Add `non_blocking=True` where the source is pinned: only then is it a copy in the background."""
    if not truth(value):
        return

    def make(original: Any) -> Any:
        def moved(self: Any, *args: Any, **kwargs: Any) -> Any:
            if self.device.type == "cpu" and "non_blocking" not in kwargs and self.is_pinned():
                trial.reached("transfer.non_blocking")
                kwargs["non_blocking"] = True
            return original(self, *args, **kwargs)

        return moved

    tensor = trial.torch.Tensor
    for name in ("to", "cuda"):
        original = getattr(tensor, name)
        setattr(tensor, name, make(original))
