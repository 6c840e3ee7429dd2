"""Looks at every batch and every operation's result of a step: which was the first that was not finite."""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING, Any

from ..clock import BACKWARD, DATA_WAIT, OPTIMIZER
from ..overrides.patching import wrap
from ..wire.masking import mask_cut
from .nonfinite import Labels, Origin, bad_count, badness, key_of, named_tensors, numbers_in, tensors_in
from .op_domains import Edge, base_name, derivative, node_operation, operation_name
from .stack import Modules, Spots, here

if TYPE_CHECKING:
    from ..probe import Probe

# A dispatch mode sees the operators of forward, loss, backward pass and optimizer below autograd, whoever
# called them. Each result that is not finite gets a label with its origin; what is computed from it inherits
# the label. So the loss, a gradient or a weight that is bad in the end leads back to the operation that began
# it, and an infinity that comes to nothing (a mask before a softmax) leads nowhere.

_EMPTY = {"empty", "new_empty", "empty_like", "empty_strided", "new_empty_strided", "empty_permuted", "resize"}
"""Operators that give memory as it lies."""
_GIVES = {"lift_fresh", "lift_fresh_copy"}
"""Operators that bring in what Python or numpy made."""
_CLONED = 1 << 26
"""Elements up to which what an operator overwrites is kept for a look."""


class Watch:
    """Follows what is not finite through some steps of one process."""

    def __init__(self, probe: Probe) -> None:
        self._probe = probe
        self.torch = probe.torch
        self.labels = Labels()
        self.modules = Modules(probe.torch)
        self.spots = Spots(probe)
        self.number = 0
        self.broken = ""
        """Why it stopped looking: an error of ours."""
        self._held: dict[int, tuple[str, str]] = {}
        """Memory of weights, buffers and gradients: kind and name."""
        self._forwards: dict[int, dict[str, Any]] = {}
        """Number of a graph's node to where its forward was called."""
        self._sequence = getattr(probe.torch.autograd, "_get_sequence_nr", None)
        self._node = getattr(probe.torch._C, "_current_autograd_node", lambda: None)
        self._mode = _mode(self)

    @property
    def step(self) -> int:
        """The step in the making."""
        return self._probe.steps.index

    # -- on and off

    def begin(self) -> list[str]:
        """Start looking; the names of weights and buffers that are not finite already."""
        bad = self._know_weights()
        self.torch.set_anomaly_enabled(True, False)  # graphs keep the stacks of their forwards
        self.modules.begin()
        self._mode.__enter__()
        return bad

    def end(self) -> None:
        """Stop looking."""
        self._mode.__exit__(None, None, None)
        self.modules.end()
        self.torch.set_anomaly_enabled(False)

    def _know_weights(self) -> list[str]:
        torch, models = self.torch, self._probe.models
        named: list[tuple[str, str, Any]] = []
        for module in models.trained():
            named += [("weights", name, value) for name, value in module.named_parameters()]
            named += [("buffer", name, value) for name, value in module.named_buffers()]
        for optimizer in models.optimizers():
            held = [value for group in optimizer.param_groups for value in group["params"]]
            named += [("weights", f"parameter {place}", value) for place, value in enumerate(held)]
        bad: list[str] = []
        for kind, name, value in named:
            for tensor in tensors_in(torch, value):
                if key_of(tensor) in self._held:
                    continue
                self._held[key_of(tensor)] = kind, name
                word = badness(torch, tensor)
                if word and not (kind == "buffer" and word == "-inf"):
                    bad.append(name)
                gradient = tensor.grad if tensor.is_leaf else None
                if gradient is not None and badness(torch, gradient):
                    self._held[key_of(gradient)] = "gradient", name
        return bad

    def renew_weights(self) -> None:
        """A step begins: its weights may lie elsewhere than the last one's."""
        self._held = {}
        with self.torch.no_grad():
            self._know_weights()

    # -- every operation

    def before(self, func: Any, args: Any, kwargs: Any) -> list[Any]:
        """Copies of what the operator is about to overwrite, in the order of its arguments."""
        if not func._schema.is_mutable:
            return []
        written = self._written(func, args, kwargs)
        if sum(tensor.numel() for tensor in written) > _CLONED:
            return []
        return [tensor.detach().clone() for tensor in written if tensor.layout is self.torch.strided]

    def after(self, func: Any, args: Any, kwargs: Any, result: Any, kept: list[Any], grad: bool) -> None:
        """An operator has run; `grad`: while graphs were being made."""
        self.number += 1
        schema = func._schema
        base = base_name(func)
        if base in _EMPTY:
            for tensor in tensors_in(self.torch, result):
                self.labels.forget(tensor)
            return
        view = not schema.is_mutable and any(item.alias_info is not None for item in schema.returns)
        if view and base not in _GIVES:
            return  # the memory has its label
        if grad and self._node() is None:
            self._remember(base)
        written = self._written(func, args, kwargs) if schema.is_mutable else []
        written += [
            tensor for tensor in tensors_in(self.torch, result) if all(tensor is not w for w in written)
        ]
        bad = []
        for tensor in written:
            word = badness(self.torch, tensor)
            if word:
                bad.append((tensor, word))
            else:
                self.labels.clear(tensor)
        if bad:
            self._label(func, args, kwargs, bad, kept)

    def _written(self, func: Any, args: Any, kwargs: Any) -> list[Any]:
        found: list[Any] = []
        for place, argument in enumerate(func._schema.arguments):
            if argument.alias_info is not None and argument.alias_info.is_write:
                value = args[place] if place < len(args) else kwargs.get(argument.name)
                found += tensors_in(self.torch, value)
        return found

    def _remember(self, base: str) -> None:
        """A forward operator ran: the graph's node that was made last is its own."""
        if self._sequence is None:
            return
        node = self._sequence() - 1
        if node not in self._forwards:
            spot = self.spots.of(here())
            self._forwards[node] = {"operation": operation_name(base), **spot, **self.modules.now()}

    # -- origins

    def _label(self, func: Any, args: Any, kwargs: Any, bad: list[tuple[Any, str]], kept: list[Any]) -> None:
        tensor, word = next(((t, w) for t, w in bad if w == "nan"), bad[0])
        sources = self._sources(func, args, kwargs, kept)
        blamed = sorted((item for item in sources if not item.deliberate), key=lambda item: item.number)
        numbers = [value for value in numbers_in((args, kwargs)) if not math.isfinite(value)]
        if blamed:
            origin = blamed[0]
            if word == "nan" and origin.fields.get("value") != "nan" and origin.turned is None:
                origin.turned = self._event(func, tensor, word, None)
        elif base_name(func) in _GIVES or any(value != value for value in numbers):
            origin = self._made("constant", func, tensor, word, word == "-inf")
        elif word != "nan" and numbers:
            origin = self._made("constant", func, tensor, word, True)
        elif word != "nan" and sources:
            origin = sources[0]
        else:
            made_of = self._undone(func, args, kwargs, kept)
            fields = self._event(func, tensor, word, made_of)
            if sources and "place" in sources[0].fields:
                fields["masked_at"] = sources[0].fields["place"]
            origin = Origin(self.number, False, {"kind": "operation", **fields})
        for item, _ in bad:
            self.labels.put(item, origin)

    def _sources(self, func: Any, args: Any, kwargs: Any, kept: list[Any]) -> list[Origin]:
        """The origins of the arguments that are not finite."""
        found: list[Origin] = []
        written = self._written(func, args, kwargs) if func._schema.is_mutable else []
        for place, tensor in enumerate(written):  # as they were before
            if place < len(kept) and badness(self.torch, kept[place]):
                found.append(self.labels.of(tensor) or self._external(func, tensor, kept[place]))
        for tensor in tensors_in(self.torch, (args, kwargs)):
            if all(tensor is not other for other in written) and badness(self.torch, tensor):
                found.append(self.labels.of(tensor) or self._external(func, tensor, tensor))
        return found

    def _external(self, func: Any, tensor: Any, values: Any) -> Origin:
        """What nobody saw being made: weights, or data of the program's."""
        kind, name = self._held.get(key_of(tensor), ("data", ""))
        if str(func).startswith(("c10d", "_c10d")):
            kind = "peer"
        word = badness(self.torch, values)
        deliberate = word == "-inf" and kind in ("data", "buffer")
        origin = self._made(kind, func, values, word, deliberate, name=name)
        self.labels.put(tensor, origin)
        return origin

    def _made(self, kind: str, func: Any, tensor: Any, word: str, deliberate: bool, **more: Any) -> Origin:
        fields = self._event(func, tensor, word, None)
        return Origin(self.number, deliberate, {"kind": kind, **fields, **more})

    def _undone(self, func: Any, args: Any, kwargs: Any, kept: list[Any]) -> Edge:
        """The operator with its arguments as they were before it ran."""
        torch = self.torch
        if func._schema.is_mutable and kept:
            written = self._written(func, args, kwargs)
            table = {id(tensor): copy for tensor, copy in zip(written, kept)}
            args = [table.get(id(item), item) for item in args]
        return Edge(torch, func, args, kwargs, "nan")

    def _event(self, func: Any, tensor: Any, word: str, edge: Edge | None) -> dict[str, Any]:
        """The operation in the words of the record; `edge` looks closer at it."""
        node = self._node()
        base = base_name(func)
        fields: dict[str, Any] = {
            "operation": operation_name(base), "operator": str(func), "value": word, "phase": self._phase(node),
            "dtype": str(tensor.dtype).replace("torch.", ""), "shape": list(tensor.shape),
            "bad": bad_count(self.torch, tensor), "of": tensor.numel(), "step": self._probe.steps.index,
            "early": not self._probe.models.forwards,
        }  # fmt: skip
        fields.update(self._behind(node) if node is not None else self._called())
        if edge is not None:
            edge._value = word
            key, words = edge.words()
            wide, largest = edge.wide()
            if node is not None and derivative(fields["operation"]) and wide != "finite":
                key, words = "derivative", derivative(fields["operation"])
            fields.update(edge=key, words=words, wide=wide, largest=largest)
        return fields

    def _phase(self, node: Any) -> str:
        if node is not None:
            return "backward"
        names = {BACKWARD: "backward", OPTIMIZER: "optimizer", DATA_WAIT: "loader"}
        return names.get(self._probe.clock.phase, "forward")

    def _called(self) -> dict[str, Any]:
        return {**self.spots.of(here()), **self.modules.now()}

    def _behind(self, node: Any) -> dict[str, Any]:
        """The forward operation that a node of the graph is the derivative of."""
        name = node.name()
        number = node._sequence_nr() if hasattr(node, "_sequence_nr") else -1
        known = dict(self._forwards.get(number) or {"place": None, "site": None, "module": None})
        trace = self.spots.of_trace((node.metadata or {}).get("traceback_"))
        if trace["place"] is not None or trace["site"] is not None:
            known.update(trace)
        if isinstance(node, self.torch.autograd.function.BackwardCFunction):
            known.update(self._inside(known))
        return {**known, "operation": node_operation(name), "node": name}

    def _inside(self, known: dict[str, Any]) -> dict[str, Any]:
        """Of a function with a backward pass of its own: the line in there."""
        found = self.spots.of(here())
        inner = found["site"] or found["place"]
        if inner is None or inner["function"] != "backward":
            return known
        return {"place": inner, "site": None} if found["site"] is None else {**known, "site": inner}


def _mode(watch: Watch) -> Any:
    """The dispatch mode; what is called in here does not come by again."""
    torch = watch.torch

    def dispatch(_mode: Any, func: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if watch.broken:
            return func(*args, **kwargs)
        grad, kept = torch.is_grad_enabled(), []
        try:
            with torch.no_grad():
                kept = watch.before(func, args, kwargs)
        except Exception as error:
            watch.broken = mask_cut(f"{str(func)[:60]}: {type(error).__name__}: {error}", 200)
        result = func(*args, **kwargs)
        try:
            if not watch.broken:
                with torch.no_grad():
                    watch.after(func, args, kwargs, result, kept, grad)
        except Exception as error:
            watch.broken = mask_cut(f"{str(func)[:60]}: {type(error).__name__}: {error}", 200)
        return result

    base = torch.utils._python_dispatch.TorchDispatchMode
    return type("Watching", (base,), {"__torch_dispatch__": dispatch})()


# Batches of the watched steps: what is not finite in them, and which items of the data set it came from.

_DRAWN = "_gpudoctor_drawn"
_ROWS = 8


class Batches:
    """Looks at what loaders give while the watch is on."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self.watch: Watch | None = None

    def install(self) -> None:
        """Wrap the iterators of `DataLoader`."""
        dataloader: Any = sys.modules["torch.utils.data.dataloader"]
        wrap(dataloader._BaseDataLoaderIter, "_next_index", _remembering)
        wrap(dataloader._BaseDataLoaderIter, "__next__", self._drawing)

    def _drawing(self, original: Any) -> Any:
        def __next__(iterator: Any) -> Any:
            batch = original(iterator)
            number = iterator.__dict__.setdefault("_gpudoctor_given", [0])
            number[0] += 1
            watch = self.watch
            if watch is not None and not watch.broken:
                try:
                    self._look(watch, batch, _indices(iterator, number[0] - 1))
                except Exception as error:
                    watch.broken = mask_cut(f"a batch: {type(error).__name__}: {error}", 200)
            return batch

        return __next__

    def _look(self, watch: Watch, batch: Any, indices: list[Any]) -> None:
        torch = self._torch
        for name, tensor in named_tensors(torch, batch):
            word = badness(torch, tensor)
            if not word:
                continue
            fields: dict[str, Any] = {
                "kind": "batch", "name": name, "value": word, "phase": "loader", "operation": "",
                "operator": "",
                "dtype": str(tensor.dtype).replace("torch.", ""), "shape": list(tensor.shape),
                "bad": bad_count(torch, tensor), "of": tensor.numel(), "module": None, "module_class": None,
                "step": watch.step, **watch.spots.of(here()),
            }  # fmt: skip
            rows = fields["rows"] = _bad_rows(torch, tensor)
            if len(indices) == (tensor.shape[0] if tensor.dim() else 0):
                fields["items"] = [int(indices[row]) for row in rows if isinstance(indices[row], int)]
            watch.labels.put(tensor, Origin(watch.number, word == "-inf", fields))


def _remembering(original: Any) -> Any:
    """Indices are drawn ahead of the batches where there are workers; the order is the same."""

    def _next_index(iterator: Any) -> Any:
        found = original(iterator)
        drawn = iterator.__dict__.setdefault(_DRAWN, [])
        drawn.append(found)
        return found

    return _next_index


def _indices(iterator: Any, number: int) -> list[Any]:
    """Indices of one batch; empty where there are none (a stream), and those before it are let go."""
    drawn = iterator.__dict__.get(_DRAWN) or []
    given = drawn[number] if number < len(drawn) else None
    if number < len(drawn):
        drawn[:number] = [None] * number
    return list(given) if isinstance(given, (list, tuple)) else []


def _bad_rows(torch: Any, tensor: Any) -> list[int]:
    """Rows that hold a value which is not finite: the first few."""
    if not tensor.dim():
        return []
    bad = ~torch.isfinite(tensor)
    rows = bad.reshape(tensor.shape[0], -1).any(dim=1) if tensor.numel() else bad
    return [int(row) for row in torch.nonzero(rows).flatten()[:_ROWS]]
