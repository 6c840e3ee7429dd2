"""The trainable parameters by name, in the order of the model, without keeping any of them alive."""

from __future__ import annotations

import math
import weakref
from typing import TYPE_CHECKING, Any

from .models import class_name, parameters, unwrapped

if TYPE_CHECKING:
    from .probe import Probe

SAMPLE = 64
"""Elements of a parameter that are compared before and after a step."""

_TURN = 7919
"""A prime: turns begin all over the room that a sample leaves."""


class Parameter:
    """One trainable parameter and what was seen of it."""

    __slots__ = (
        "held", "layer", "looked", "moved", "name", "nones", "norm", "numel", "reference", "shards", "stood",
        "zeros",
    )  # fmt: skip

    def __init__(self, name: str, parameter: Any, held: bool) -> None:
        self.name = name
        self.layer = _layer(name)
        self.reference = weakref.ref(parameter)
        self.numel = int(parameter.numel())
        self.shards = shards(parameter)
        self.held = held
        """Whether an optimizer has it."""
        self.looked = 0
        """Readings of its gradient."""
        self.zeros = 0
        """Those in which it had none, or zeros only."""
        self.nones = 0
        self.norm = 0.0
        """Of its gradient, when it was read last."""
        self.moved = 0
        """Steps that changed it, of those looked at."""
        self.stood = 0
        """Steps that did not although they should have."""


def _layer(name: str) -> str:
    """The module that a parameter belongs to by its name.

    The two matrices of a LoRA adapter are one layer: the second begins at zero, and with it the gradient of the
    first.
    """
    before, adapter, _ = name.partition(".lora_")
    return before if adapter else name.rpartition(".")[0]


class Parameters:
    """Those of the models that train and of the optimizers."""

    def __init__(self, probe: Probe) -> None:
        self._kinds = (probe.torch.Tensor, probe.torch.nn.Parameter)
        self._models = probe.models
        self._evaluation = probe.evaluation
        self.list: list[Parameter] = []
        self._known: dict[int, Parameter] = {}
        self._version = -1

    def plain(self, tensor: Any) -> bool:
        """Whether a tensor may be asked: a subclass of the program's sees every question, but for shards."""
        return type(tensor) in self._kinds or type(local(tensor)) in self._kinds

    def refresh(self) -> None:
        """Look for models and optimizers that have come since."""
        if self._version == self._models.version:
            return
        self._version = self._models.version
        modules, optimizers = self._models.trained(), self._models.optimizers()
        # A teacher has gradients, too, but is not trained; without any that is, an optimizer has lost the
        # model.
        modules = [module for module in modules if self._evaluation.trains(module)] or modules
        held = {id(p) for optimizer in optimizers for group in optimizer.param_groups for p in group["params"]}
        found: list[Parameter] = []
        seen: set[int] = set()
        for module in modules:
            for name, parameter in parameters(unwrapped(module)).items():
                if id(parameter) not in seen and self.plain(parameter) and parameter.requires_grad:
                    seen.add(id(parameter))
                    found.append(self._of(name, parameter, id(parameter) in held))
        for optimizer in optimizers if not found else ():  # a model that is no module
            for number, group in enumerate(optimizer.param_groups):
                for place, parameter in enumerate(group["params"]):
                    if id(parameter) not in seen and self.plain(parameter) and parameter.requires_grad:
                        seen.add(id(parameter))
                        found.append(self._of(f"group {number} parameter {place}", parameter, True))
        # What an optimizer has and a module holds that is called without gradients only is trained by nothing.
        # What no called module holds may be a copy's, by mistake: that is told by what the steps leave alone.
        for module in self._models.untrained() if found and held - seen else ():
            name_of = class_name(unwrapped(module))
            for name, parameter in parameters(unwrapped(module)).items():
                if id(parameter) in held and id(parameter) not in seen and self.plain(parameter):
                    seen.add(id(parameter))
                    if parameter.requires_grad:
                        found.append(self._of(f"{name_of}.{name}", parameter, True))
        self.list = found
        self._known = {id(entry.reference()): entry for entry in found}

    def _of(self, name: str, parameter: Any, held: bool) -> Parameter:
        known = self._known.get(id(parameter))
        if known is not None and known.reference() is parameter:
            known.held = held
            return known
        return Parameter(name, parameter, held)

    def of(self, optimizer: Any) -> list[tuple[Parameter, Any]]:
        """Those that an optimizer steps, and those that none does, with their tensors, in order.

        What only an optimizer has (a copy's, by mistake) is no parameter of the model.
        """
        own = {id(p) for group in optimizer.param_groups for p in group["params"]}
        pairs = []
        for entry in self.list:
            parameter = entry.reference()
            if parameter is not None and (id(parameter) in own or not entry.held):
                pairs.append((entry, parameter))
        return pairs


def local(tensor: Any) -> Any:
    """The part of a distributed tensor that is here (asking for the whole would be a collective)."""
    return tensor._local_tensor if hasattr(type(tensor), "_local_tensor") else tensor


def shards(tensor: Any) -> int:
    """Ranks over which a distributed tensor is spread: each has a part of its gradient only."""
    if not hasattr(type(tensor), "_local_tensor"):
        return 1
    count = 1
    for dimension, placement in enumerate(tensor.placements):
        if placement.is_shard():
            count *= int(tensor.device_mesh.size(dimension))
    return count


def sample(tensor: Any, turn: int = 0) -> Any:
    """A few elements of a tensor, spread over it, as a new one; None where that is not a plain view.

    Others in every `turn`. The stride has no factor in common with any dimension: else all could be the same
    corner of every kernel, which on small maps has no gradient.
    """
    tensor = local(tensor.detach())
    if not tensor.is_contiguous() or not tensor.numel():
        return None
    flat = tensor.view(-1)
    size = flat.numel()
    stride = max(1, size // SAMPLE)
    while stride > 1 and math.gcd(stride, size) > 1:
        stride -= 1
    begin = turn * _TURN % max(1, size - (SAMPLE - 1) * stride)
    return flat[begin::stride][:SAMPLE].clone()
