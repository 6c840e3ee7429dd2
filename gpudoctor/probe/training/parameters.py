"""What of the model is trained: adapters and their base, vocabularies, what optimizers hold of it.

Looked at when 1, 2, 4, 8... steps are over: no value is read, only names, sizes and `requires_grad`.
"""

from __future__ import annotations

import re
import sys
import weakref
from collections.abc import Mapping
from time import perf_counter
from typing import TYPE_CHECKING, Any

from ..call_sites import Place, where
from ..guard import CALLER
from ..models import held_by, parameters, parts, unwrapped
from ..tensor_reads import Budget
from . import both

if TYPE_CHECKING:
    from ..probe import Probe

HOOK = "parameters"
_LORA = re.compile(r"(?:^|\.)([^.]+)\.lora_(?:embedding_)?[AB]\.")
"""A matrix of an adapter, and the module that it is put on."""
_WRAPPED = re.compile(r"\.(?:base_layer|original_module|modules_to_save|token_adapter)\b")
"""What PEFT puts between a module's name and its weights."""
_NAMES = 16
_SHARE = 0.0005
"""Share of the time for looks at batches, once a vocabulary has grown."""


class Trained:
    """Looks at the largest model that an optimizer trains."""

    def __init__(self, probe: Probe) -> None:
        self._probe = probe
        self._next = 1
        self._told: dict[str, Any] = {}
        self.grown: tuple[int, ...] = ()
        """A vocabulary's rows before and after it was resized."""
        self._new = self._batches = 0
        """New tokens among the inputs, and batches that were looked at for them."""
        self._budget = Budget(_SHARE)
        self.loaded: list[Any] = []
        """Weak references to the parameters of adapters that were read from a file."""
        self.place: Place = (None, None, None)

    def again(self) -> None:
        """For a new recording nothing has been told."""
        self._next, self._told = 1, {}

    def stepped(self) -> None:
        """A step has ended."""
        index = self._probe.steps.index
        if index >= self._next:
            self._next = index + 1 if index < 2 else 2 * index
            self.tell()

    def tell(self) -> None:
        """Write down what is so now, if it is news."""
        inside = {key for optimizer in self._probe.models.optimizers() for key in held_by(optimizer)}
        models = [unwrapped(model) for model in self._probe.models.trained()] if inside else []
        stepped = (model for model in models if any(id(p) in inside for p in parameters(model).values()))
        model = next(stepped, models[0] if models else None)
        own = parameters(model) if model is not None else {}
        if not own:
            return
        adapters = {name: found[1] for name in own if (found := _LORA.search(name))}
        lora = [own[name] for name in adapters]
        base = [p for name, p in own.items() if adapters and ".base_layer." in name and p.requires_grad and p.dim() > 1]
        left = [name for name, p in own.items() if p.requires_grad and p.grad is not None and id(p) not in inside]
        kept, alive = {id(p) for p in own.values()}, [reference() for reference in self.loaded]
        facts: dict[str, Any] = {
            "total": _size(own.values()),
            "trained": _size(p for p in own.values() if p.requires_grad),
            "targets": sorted(set(adapters.values()))[:_NAMES],
            "ranks": sorted({int(own[name].shape[0]) for name in adapters if ".lora_A." in name})[:_NAMES],
            "adapter": _size(lora),
            "adapter_trained": _size(p for p in lora if p.requires_grad),
            "adapter_held": _size(p for p in lora if id(p) in inside),
            "base_trained": _size(base),
            "left": left[:_NAMES],
            "frozen_tables": self._frozen_tables(model, own)[:_NAMES],
            "grown": list(self.grown),
            "new_inputs": self._new,
            "batches": self._batches,
            "loaded": len(alive),
            "loaded_kept": sum(id(p) in kept for p in alive),
            "path": self.place[0],
            "line": self.place[1],
        }
        if facts != self._told:
            self._told = facts
            self._probe.record("parameters", {"step": self._probe.steps.index, **facts})

    def _frozen_tables(self, model: Any, own: Mapping[str, Any]) -> list[str]:
        """Embeddings and heads over the vocabulary of which nothing is trained."""
        names = {id(p): name for name, p in own.items() if p.dim() == 2 and ".lora_" not in name}
        tables: dict[str, tuple[int, bool]] = {}
        for part in parts(model).values():
            name = names.get(id(part._parameters.get("weight")))
            if name is not None:
                tables.setdefault(name, (int(own[name].shape[0]), "Embedding" in type(part).__name__))
        looked_up = [size for size, embeds in tables.values() if embeds]
        rows = self.grown[1] if self.grown else max(looked_up, default=0)
        stems = [_WRAPPED.split(name)[0].removesuffix(".weight") for name, (size, _) in tables.items() if size == rows]
        return [
            stem for stem in stems if not any(p.requires_grad for name, p in own.items() if name.startswith(f"{stem}."))
        ]

    def drawn(self, batch: Any) -> None:
        """A batch was drawn: does it have any of the new tokens?"""
        if not self.grown or not isinstance(batch, Mapping) or (self._batches >= 3 and not self._budget.due()):
            return
        began, plain = perf_counter(), self._probe.torch.Tensor
        ids: Any = batch.get("input_ids")
        mask: Any = batch.get("attention_mask")
        if type(ids) is plain and ids.is_cpu and not ids.is_floating_point():
            new: Any = ids >= self.grown[0]
            if type(mask) is plain and mask.shape == ids.shape:
                new = new & (mask != 0)
            self._batches += 1
            self._new += int(new.count_nonzero())
        self._budget.charge(perf_counter() - began)


def _size(some: Any) -> int:
    return sum(int(parameter.numel()) for parameter in some)


def install(probe: Probe) -> None:
    """Look when steps are over, when a vocabulary is resized and when an adapter is loaded."""
    trained = Trained(probe)
    guard = probe.guard
    probe.steps.after.append(guard.reading(HOOK, trained.stepped, subclasses=True))
    probe.training[HOOK] = trained
    probe.drawn = both(probe.drawn, guard.reading(HOOK, trained.drawn))

    def resize(args: Any, _kwargs: Any) -> Any:
        place, before = where(probe.places.user_frame(sys._getframe(CALLER))), _rows(args[0])
        if (yield) is not None and 0 < before < _rows(args[0]):
            trained.grown, trained.place = (before, _rows(args[0])), place

    def load(args: Any, _kwargs: Any) -> Any:
        place = where(probe.places.user_frame(sys._getframe(CALLER)))
        yield
        trained.loaded = [weakref.ref(p) for name, p in parameters(args[0]).items() if _LORA.search(name)]
        trained.place = trained.place if trained.grown else place

    def hook(owner: str, name: str, work: Any) -> Any:
        return lambda module: guard.surround(HOOK, getattr(module, owner), name, work)

    probe.when_imported("transformers.modeling_utils", hook("PreTrainedModel", "resize_token_embeddings", resize))
    probe.when_imported("peft.peft_model", hook("PeftModel", "load_adapter", load))


def _rows(model: Any) -> int:
    """Rows of a model's embedding."""
    weight = getattr(model.get_input_embeddings(), "weight", None)
    return int(weight.shape[0]) if weight is not None else 0
