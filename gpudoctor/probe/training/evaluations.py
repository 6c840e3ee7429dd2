"""What evaluations use: a copy of the model, by how far it has gone with the trained one; metrics, by their updates."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from ..clock import EVALUATION
from ..models import class_name, parameters, parts, unwrapped
from ..tensor_reads import capturing
from . import Look, both

if TYPE_CHECKING:
    from ..probe import Probe

HOOK = "evaluations"
_MOST = 16
"""Models, metrics and epochs that are kept."""
_PARAMETERS, _NUMBERS = 8, 64
"""Parameters of a model, and numbers of each, that are compared."""


class Evaluations(Look):
    """Compares what is evaluated with what is trained."""

    def again(self) -> None:
        """For a new recording nothing has been evaluated."""
        super().again()
        self._trained: dict[str, tuple[Any, dict[str, Any]]] = {}
        """By class: the model that trains, and some of its weights before the first step."""
        self._beside: dict[int, int] = {}
        """By id, calls of models in the training itself: of teachers, references, targets."""
        self._calls: dict[int, int] = {}
        """Calls of a copy in evaluations."""
        self._metrics: list[tuple[Any, list[int]]] = []
        """What torchmetrics has made, with its updates since its last reset, an epoch each."""
        self._epoch = 0

    def begins(self, module: Any, _args: Any, _kwargs: Any, grad: bool) -> None:
        """The outermost module is called."""
        if self._probe.clock.phase == EVALUATION:
            inside = (part for part in module._modules.values() if part is not None)
            copy = next((part for part in (unwrapped(module), *inside) if class_name(part) in self._trained), None)
            if copy is not None:
                self._evaluated(copy)
            return
        inner = unwrapped(module)
        beside = self._beside[id(inner)] = self._beside.get(id(inner), 0) + 1
        if beside > 1 or not grad or not module.training or len(self._trained) >= _MOST:
            return
        name = class_name(inner)
        if name not in self._trained:
            with self._probe.guard.outside, self:
                # What is of another class may have no numbers of its own, and is not asked.
                plain = {key: one for key, one in parameters(inner).items() if type(one) is self._torch.nn.Parameter}
                trained = {key: one for key, one in plain.items() if one.requires_grad}
                names = [*trained][:: max(1, len(trained) // _PARAMETERS)]
                start = {key: _some(trained[key]).clone() for key in names}
                self._trained[name] = (weakref.ref(inner), start)

    def _evaluated(self, copy: Any) -> None:
        """How far a copy has gone of the way that the trained weights have made since the start."""
        calls = self._calls[id(copy)] = self._calls.get(id(copy), 0) + 1
        name = class_name(copy)
        reference, start = self._trained[name]
        trained = reference()
        if trained in (None, copy) or not start or not self.due(calls):
            return
        # The first call of an evaluation that has no loader is not yet known for one.
        if 2 * self._beside.get(id(copy), 0) > calls:
            return
        with self._probe.guard.outside, self:
            ours, theirs = parameters(trained), parameters(copy)
            sums = []
            for key, begun in start.items():
                now: Any = ours.get(key)
                other: Any = theirs.get(key)
                alike = (
                    type(now) is type(other) is self._torch.nn.Parameter
                    and now.shape == other.shape
                    and now.device == other.device
                )
                if not alike or capturing(self._torch, now.device):
                    return
                way = _some(now) - begun
                sums.append(self._torch.stack([(way * (_some(other) - begun)).sum(), (way * way).sum()]))
            way = self._torch.stack(sums).double().sum(0)
            means = [_means(model, way) for model in (trained, copy)]
            vector = self._torch.stack([*way, *means])
            self._probe.numerics.read_all(vector, lambda values: self._note(name, calls, *values))

    def _note(self, name: str, calls: int, along: float, whole: float, ours: float, theirs: float) -> None:
        if whole > 0:
            share = max(0.0, along / whole)
            fields = {"share": share, "calls": calls, "unmoved": ours > 0.0 == theirs}
            self.write("numeric", {"kind": "copy", "model": name, **fields})

    def made(self, args: Any, _kwargs: Any) -> None:
        """A metric of torchmetrics is being made: one of the program's, not of what a trainer keeps for itself."""
        kind = type(args[0]).__module__.partition(".")[0]
        if len(self._metrics) < _MOST and kind not in ("lightning", "pytorch_lightning"):
            self._metrics.append((weakref.ref(args[0]), []))

    def ended(self) -> None:
        """A watched step has ended: the first one of an epoch shows what was not reset since the last one."""
        loaders = self._probe.loaders
        entry = loaders.trains if loaders is not None else None
        if entry is None or entry.epochs == self._epoch or not self._metrics:
            return
        self._epoch = entry.epochs
        for known, updates in self._metrics:
            count = getattr(known(), "_update_count", None)
            if type(count) is int and len(updates) < _MOST:
                updates.append(count)
        if self._epoch >= 4:
            self.tell()

    def tell(self) -> None:
        """Write down what metrics have counted."""
        for known, updates in self._metrics:
            metric = known()
            if metric is not None and updates and updates[-1]:
                self.write("numeric", {"kind": "metric", "model": class_name(metric), "updates": updates})


def _means(model: Any, like: Any) -> Any:
    """The size of all running means of batch norms: 0 as they are made."""
    buffers = (part._buffers.get("running_mean") for part in parts(model).values())
    sizes = [mean.abs().sum().to(like) for mean in buffers if mean is not None]
    return sum(sizes, like.new_zeros(()))


def _some(parameter: Any) -> Any:
    """Some of a parameter's numbers."""
    flat = parameter.detach().flatten()
    return flat[:: max(1, len(flat) // _NUMBERS)][:_NUMBERS].float()


def install(probe: Probe) -> None:
    """Look at the calls of models, and at metrics."""
    seen, guard = Evaluations(probe), probe.guard
    probe.training[HOOK] = seen
    probe.calling = both(probe.calling, guard.safely(HOOK, seen.begins))
    probe.steps.after.append(guard.safely(HOOK, seen.ended))
    probe.when_imported(
        "torchmetrics.metric", lambda module: guard.surround(HOOK, module.Metric, "__init__", seen.made)
    )
