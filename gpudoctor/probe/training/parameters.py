"""What of the models is trained: adapters and their base, vocabularies, what optimizers hold of it.

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
from ..models import class_name, held_by, parameters, parts, unwrapped
from ..tensor_reads import Budget
from . import both

if TYPE_CHECKING:
    from ..probe import Probe

HOOK = "parameters"
_LORA = re.compile(r"(?:^|\.)([^.]+)\.lora_(?:embedding_)?[AB]\.([^.]+)")
"""A matrix of an adapter: the module that it is put on, and the adapter's name."""
_UNDER = ".base_layer."
"""What PEFT puts an adapter on."""
_NAMES = 16
_SHARE = 0.0005
"""Share of the time for looks at batches, once a vocabulary has grown."""


class Trained:
    """Looks at the largest model that trains."""

    def __init__(self, probe: Probe) -> None:
        self._probe = probe
        self._next = 1
        self._told: dict[str, Any] = {}
        self.grown: tuple[int, int, Place] | None = None
        """A vocabulary's rows before and after it was resized, and where."""
        self._new = self._batches = 0
        """New tokens among the inputs, and batches that were looked at for them."""
        self._budget = Budget(_SHARE)
        self.loaded: list[Any] = []
        """Weak references to the parameters of adapters that were read from a file."""
        self.loaded_at: Place = (None, None, None)

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
        models = self._probe.models.trained()
        if not models:
            return
        facts = self._facts(unwrapped(models[0]))
        if facts != self._told:
            self._told = facts
            self._probe.record("parameters", {"step": self._probe.steps.index, **facts})

    def _facts(self, model: Any) -> dict[str, Any]:
        own = parameters(model)
        adapters = {name: found for name in own if (found := _LORA.search(name))}
        under = {name for name in own if _UNDER in name} if adapters else set()
        ranks = {int(own[name].shape[0]) for name in adapters if ".lora_A." in name and own[name].dim() == 2}
        facts: dict[str, Any] = {
            "name": class_name(model),
            "total": _size(own.values()),
            "trained": _size(p for p in own.values() if p.requires_grad),
            "targets": sorted({found[1] for found in adapters.values()})[:_NAMES],
            "adapters": sorted({found[2] for found in adapters.values()})[:_NAMES],
            "ranks": sorted(ranks)[:_NAMES],
            "adapter": _size(own[name] for name in adapters),
            "adapter_trained": _size(own[name] for name in adapters if own[name].requires_grad),
            "base_trained": _size(p for name, p in own.items() if name in under and p.requires_grad and p.dim() > 1),
            **self._held(own),
        }
        facts.update(_tables(model, own, self.grown[1] if self.grown else 0))
        place: Place = (None, None, None)
        if self.grown is not None:
            before, after, place = self.grown
            facts |= {"grown": [before, after], "new_inputs": self._new, "batches": self._batches}
        elif self.loaded:
            inside, place = {id(parameter) for parameter in own.values()}, self.loaded_at
            kept = sum(id(reference()) in inside for reference in self.loaded)
            facts |= {"loaded": len(self.loaded), "loaded_kept": kept}
        return {**facts, "path": place[0], "line": place[1]}

    def _held(self, own: Mapping[str, Any]) -> dict[str, Any]:
        """What the optimizers that make steps have of it."""
        each = [held_by(optimizer) for optimizer in self._probe.models.optimizers()]
        held: set[int] = set().union(*each)
        left = [name for name, p in own.items() if p.requires_grad and id(p) not in held and p.grad is not None]
        return {
            "frozen_held": _size(p for p in own.values() if id(p) in held and not p.requires_grad),
            "twice": _size(p for p in own.values() if p.requires_grad and sum(id(p) in one for one in each) > 1),
            "left": left[:_NAMES],
            "left_elements": _size(own[name] for name in left),
        }

    # -- vocabularies

    def drawn(self, batch: Any) -> None:
        """A batch was drawn: does it have any of the new tokens?"""
        if self.grown is None or (self._batches >= 3 and not self._budget.due()):
            return
        began, plain = perf_counter(), self._probe.torch.Tensor
        if isinstance(batch, Mapping):
            ids: Any = batch.get("input_ids")
            mask: Any = batch.get("attention_mask")
            if type(ids) is plain and ids.is_cpu and ids.dtype is self._probe.torch.int64:
                new: Any = ids >= self.grown[0]
                if type(mask) is plain and mask.shape == ids.shape:
                    new = new & (mask != 0)
                self._batches += 1
                self._new += int(new.count_nonzero())
        self._budget.charge(perf_counter() - began)


def _size(some: Any) -> int:
    return sum(int(parameter.numel()) for parameter in some)


def _tables(model: Any, own: Mapping[str, Any], rows: int) -> dict[str, Any]:
    """Elements of embeddings and of the head over the same vocabulary, and how many of them are trained.

    `frozen_tables`: those with so many rows under whose name nothing is trained.
    """
    known = {id(parameter): name for name, parameter in own.items()}
    tables: dict[str, tuple[str, Any]] = {}
    for part in parts(model).values():
        weight = part._parameters.get("weight")
        if weight is not None and weight.dim() == 2 and id(weight) in known:
            kind = "embedding" if "Embedding" in type(part).__name__ else "head"
            tables.setdefault(known[id(weight)], (kind, weight))
    vocabulary = rows or max((int(w.shape[0]) for kind, w in tables.values() if kind == "embedding"), default=0)
    facts: dict[str, Any] = {"embedding": 0, "embedding_trained": 0, "head": 0, "head_trained": 0}
    frozen = []
    for name, (kind, weight) in tables.items():
        if int(weight.shape[0]) == vocabulary and vocabulary and ".lora_" not in name:
            stem = re.split(r"\.(?:base_layer|original_module|modules_to_save|token_adapter)\.", name)[0]
            stem = stem.rpartition(".")[0] if stem == name else stem
            trains = any(p.requires_grad for known, p in own.items() if known.startswith(f"{stem}."))
            facts[kind] += int(weight.numel())
            facts[f"{kind}_trained"] += int(weight.numel()) * trains
            frozen += [] if trains else [name]
    return {**facts, "frozen_tables": frozen[:_NAMES] if rows else []}


def install(probe: Probe) -> None:
    """Look when steps are over, when a vocabulary is resized and when an adapter is loaded."""
    trained = Trained(probe)
    guard = probe.guard
    probe.steps.after.append(guard.reading(HOOK, trained.stepped, subclasses=True))
    probe.training[HOOK] = trained
    probe.drawn = both(probe.drawn, guard.reading(HOOK, trained.drawn))

    def resize(args: Any, _kwargs: Any) -> Any:
        place = where(probe.places.user_frame(sys._getframe(CALLER)))
        before = _rows(args[0])
        if (yield) is not None and 0 < before < _rows(args[0]):
            trained.grown = before, _rows(args[0]), place

    def load(args: Any, _kwargs: Any) -> Any:
        place = where(probe.places.user_frame(sys._getframe(CALLER)))
        yield
        found = [weakref.ref(p) for name, p in parameters(args[0]).items() if _LORA.search(name)]
        trained.loaded, trained.loaded_at = found, place

    def hook(owner: str, name: str, work: Any) -> Any:
        return lambda module: guard.surround(HOOK, getattr(module, owner), name, work)

    probe.when_imported("transformers.modeling_utils", hook("PreTrainedModel", "resize_token_embeddings", resize))
    probe.when_imported("peft.peft_model", hook("PeftModel", "load_adapter", load))


def _rows(model: Any) -> int:
    """Rows of a model's embedding."""
    weight = getattr(model.get_input_embeddings(), "weight", None)
    return int(weight.shape[0]) if weight is not None else 0
