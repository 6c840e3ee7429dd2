"""What of the model is trained: adapters and their base, vocabularies, what optimizers hold of it.

Looked at when 1, 2, 4, 8... steps are over: no value is read, only names, sizes and `requires_grad`.
"""

from __future__ import annotations

import re
import weakref
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..models import held_by, parameters, parts, unwrapped
from . import FIRST, Look, both

if TYPE_CHECKING:
    from ..probe import Probe

HOOK = "parameters"
_LORA = re.compile(r"(?:^|\.)([^.]+)\.lora_(?:embedding_)?[AB]\.")
"""A matrix of an adapter, and the module that it is put on."""
_WRAPPED = re.compile(r"\.(?:base_layer|original_module|modules_to_save|token_adapter)\b")
"""What PEFT puts between a module's name and its weights."""
_TASK = re.compile(r"For(?:\w+Classification|QuestionAnswering|MultipleChoice)$")
"""Classes of transformers whose head is new where the checkpoint is that of a base model."""
_NAMES = 16
"""Names that are kept of one kind."""
_BATCHES = 3
"""Batches that are looked at for new tokens whatever that costs."""
_NODES = 1 << 14
"""Nodes of the graph behind a loss among which parameters are looked for."""


class Trained(Look):
    """Looks at the largest model that an optimizer trains."""

    def __init__(self, probe: Probe) -> None:
        super().__init__(probe)
        self.grown: tuple[int, ...] = ()
        """A vocabulary's rows before and after it was resized."""
        self._new = 0
        """New tokens among the inputs."""
        self._batches = 0
        """Batches that were looked at for them."""
        self.loaded: list[Any] = []
        """Weak references to the parameters of adapters that were read from a file."""
        self.made: dict[str, Any] = {}
        """Where that was."""
        self._losses = 0
        self._stray = 0
        """Elements that the last loss depends on, and that neither an optimizer nor a model has."""

    def rooted(self, root: Any) -> None:
        """A backward pass begins: are there parameters behind the loss that nobody has registered?"""
        models = self._probe.models
        optimizers = models.optimizers()
        if not optimizers or self._losses >= FIRST:
            return
        self._losses += 1
        with self._probe.guard.outside, self:
            if root.grad_fn is None:
                return
            known = {key for optimizer in optimizers for key in held_by(optimizer)}
            for model, _ in models.all():
                known |= {id(p) for p in parameters(model).values()}
            leaves = _leaves(root.grad_fn)
            kind = self._torch.nn.Parameter
            self._stray = _size(leaf for key, leaf in leaves.items() if type(leaf) is kind and key not in known)

    def tell(self) -> None:
        """Write down what is so now, if it is news."""
        optimizers = self._probe.models.optimizers()
        inside = {key for optimizer in optimizers for key in held_by(optimizer)}
        model = self._model(inside) if inside else None
        own = parameters(model) if model is not None else {}
        if not own:
            return
        adapters = _adapters(own)
        lora = [own[name] for name in adapters]
        trained = {name: p for name, p in own.items() if p.requires_grad}
        base = [p for name, p in trained.items() if adapters and ".base_layer." in name and p.dim() > 1]
        left = [name for name, p in trained.items() if p.grad is not None and id(p) not in inside]
        kept = {id(p) for p in own.values()}
        alive = [reference() for reference in self.loaded]
        tables = self._tables(model, own)
        first_matrices = [own[name] for name in adapters if ".lora_A." in name]
        facts: dict[str, Any] = {
            "total": _size(own.values()),
            "sharded": any("_fsdp_flattened" in vars(p) for p in own.values()),
            "trained": _size(trained.values()),
            "targets": sorted(set(adapters.values()))[:_NAMES],
            "ranks": sorted({int(matrix.shape[0]) for matrix in first_matrices})[:_NAMES],
            "adapter": _size(lora),
            "adapter_trained": _size(p for p in lora if p.requires_grad),
            "adapter_held": _size(p for p in lora if id(p) in inside),
            "base_trained": _size(base),
            "stray": self._stray,
            "left": left[:_NAMES],
            "frozen_tables": [name for name, frozen in tables.items() if frozen][:_NAMES],
            "head": _frozen_head(model, own) if adapters else [],
            "grown": list(self.grown),
            # Of several tables the first one is that of the inputs.
            "new_inputs": self._new if next(iter(tables.values()), False) else 0,
            "batches": self._batches,
            "loaded": len(alive),
            "loaded_kept": sum(id(p) in kept for p in alive),
            **self.made,
        }
        self.write("parameters", facts)

    def _model(self, inside: set[int]) -> Any:
        """The first model that an optimizer holds parameters of; else the first one; None without any."""
        models = [unwrapped(model) for model in self._probe.models.trained()]
        for model in models:
            if any(id(p) in inside for p in parameters(model).values()):
                return model
        return models[0] if models else None

    def _tables(self, model: Any, own: Mapping[str, Any]) -> dict[str, bool]:
        """Embeddings and heads over the vocabulary, and whether nothing of each is trained."""
        rows = self.grown[1] if self.grown else 0
        if not rows:
            embeds = [part for part in parts(model).values() if "Embedding" in type(part).__name__]
            weights = [p for part in embeds for p in part._parameters.values() if p is not None]
            rows = max((int(weight.shape[0]) for weight in weights), default=0)
        names = [name for name, p in own.items() if p.dim() == 2 and p.shape[0] == rows and ".lora_" not in name]
        # A table and the copy of it that PEFT trains have one stem.
        stems = dict.fromkeys(_WRAPPED.split(name)[0].removesuffix(".weight") for name in names)
        trained = [name for name, p in own.items() if p.requires_grad]
        return {stem: not any(name.startswith(f"{stem}.") for name in trained) for stem in stems}

    def drawn(self, batch: Any) -> None:
        """A batch was drawn: does it have any of the new tokens?"""
        if not self.grown or not isinstance(batch, Mapping):
            return
        if self._batches >= _BATCHES and not self._budget.due():
            return
        ids: Any = batch.get("input_ids")
        mask: Any = batch.get("attention_mask")
        if type(ids) is self._torch.Tensor and ids.is_cpu and not ids.is_floating_point():
            with self:
                # They are at the end of the vocabulary.
                new: Any = ids >= self.grown[0]
                if type(mask) is self._torch.Tensor and mask.shape == ids.shape:
                    new = new & (mask != 0)  # the padding may be a new token
                self._batches += 1
                self._new += int(new.count_nonzero())


def _adapters(own: Mapping[str, Any]) -> dict[str, str]:
    """By name of an adapter's matrix, the module that it is put on."""
    found = {}
    for name in own:
        match = _LORA.search(name)
        if match:
            found[name] = match[1]
    return found


def _frozen_head(model: Any, own: Mapping[str, Any]) -> list[str]:
    """Names of the head's weights of a model for a task, where none of them is trained."""
    for path, part in parts(model).items():
        body = getattr(part, "base_model_prefix", "")
        if body and _TASK.search(type(part).__name__):
            start = f"{path}." if path else ""
            names = [name for name in own if name.startswith(start) and not name.startswith(f"{start}{body}.")]
            return [] if any(own[name].requires_grad for name in names) else names[:_NAMES]
    return []


def _leaves(top: Any) -> dict[int, Any]:
    """By id, the tensors whose gradients a graph adds up."""
    found: dict[int, Any] = {}
    seen = {top}
    level = [top]
    for node in level:
        variable = getattr(node, "variable", None)
        if variable is not None:
            found[id(variable)] = variable
        inner = [link for link, _ in node.next_functions if link is not None and link not in seen]
        if len(level) < _NODES:
            seen.update(inner)
            level += dict.fromkeys(inner)
    return found


def _size(some: Any) -> int:
    """How many numbers some parameters have together."""
    return sum(int(parameter.numel()) for parameter in some)


def install(probe: Probe) -> None:
    """Look when steps are over, when a vocabulary is resized and when an adapter is loaded."""
    trained, guard = Trained(probe), probe.guard
    probe.steps.after.append(guard.reading(HOOK, trained.ended, subclasses=True))
    probe.training[HOOK] = trained
    probe.drawn = both(probe.drawn, guard.reading(HOOK, trained.drawn))
    probe.rooted = both(probe.rooted, guard.safely(HOOK, trained.rooted))

    def resize(args: Any, _kwargs: Any) -> Any:
        """A vocabulary is resized."""
        place = trained.place()
        before = _rows(args[0])
        result = yield
        if result is not None and 0 < before < _rows(args[0]):
            trained.grown = (before, _rows(args[0]))
            trained.made = place

    def load(args: Any, _kwargs: Any) -> Any:
        """An adapter is read from a file."""
        place = trained.place()
        yield
        own = parameters(args[0])
        trained.loaded = [weakref.ref(own[name]) for name in _adapters(own)]
        if not trained.grown:
            trained.made = place

    def hook(owner: str, name: str, work: Any) -> Any:
        return lambda module: guard.surround(HOOK, getattr(module, owner), name, work)

    probe.when_imported("transformers.modeling_utils", hook("PreTrainedModel", "resize_token_embeddings", resize))
    probe.when_imported("peft.peft_model", hook("PeftModel", "load_adapter", load))


def _rows(model: Any) -> int:
    """Rows of a model's embedding."""
    weight = getattr(model.get_input_embeddings(), "weight", None)
    return int(weight.shape[0]) if weight is not None else 0
