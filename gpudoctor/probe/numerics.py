"""Loss, rate, gradients and weights, read at a price that is kept small and never by waiting for a device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .table import AT

if TYPE_CHECKING:
    from .probe import Probe

_LOSS, _LR = AT["loss"], AT["lr"]


class Numerics:
    """Reads numbers of the training at the ends of its steps."""

    def __init__(self, probe: Probe) -> None:
        self._probe = probe
        self._clock = probe.clock
        self._tensor = probe.torch.Tensor
        self._item = probe.torch._C.TensorBase.item

    def backward_begins(self, roots: Any) -> None:
        """A backward pass starts from these tensors: a single number is the loss."""
        root = roots[0] if isinstance(roots, (tuple, list)) and roots else roots
        if type(root) is self._tensor and root.is_cpu and root.numel() == 1:
            self._clock.row[_LOSS] = self._item(root.detach())

    def before_step(self, optimizer: Any) -> None:
        """An outermost optimizer is about to make its step."""
        groups = optimizer.param_groups
        rate = groups[0].get("lr") if groups else None
        if type(rate) is float:
            self._clock.row[_LR] = rate

    def after_step(self, optimizer: Any) -> None:
        """It has made it."""
