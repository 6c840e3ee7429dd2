"""Models and optimizers that take part: which they are, and what is told of them once."""

from __future__ import annotations

import sys
import weakref
from types import FrameType
from typing import TYPE_CHECKING, Any

from .places import Place, where

if TYPE_CHECKING:
    from .probe import Probe

_MODELS = 32
"""Outermost modules that are remembered."""
_DDP = (
    "iteration", "avg_forward_compute_time", "avg_backward_compute_time", "avg_backward_comm_time",
    "avg_backward_compute_comm_overlap_time", "bucket_sizes", "comm_hook", "backend_name", "world_size",
)  # fmt: skip
FEW = 3
"""Calls in a wrong mode before it is told."""
_WRAPPERS = {
    "DistributedDataParallel": "DDP",
    "FullyShardedDataParallel": "FSDP",
    "DataParallel": "DataParallel",
}

_INNER = frozenset({*_WRAPPERS, "DeepSpeedEngine"})
"""Classes that hold the user's model as `module`."""


class Model:
    """An outermost module that was called."""

    __slots__ = (
        "calls", "eval_calls", "eval_grads", "eval_trainings", "evaluations", "forward_line",
        "grad_calls", "module", "told",
    )  # fmt: skip

    def __init__(self, module: Any) -> None:
        self.module = weakref.ref(module)
        self.calls = 0
        self.grad_calls = 0
        """Calls with gradients, in training."""
        self.eval_calls = 0
        """Those of them in eval mode."""
        self.evaluations = 0
        """Calls in an evaluation."""
        self.eval_grads = 0
        """Those of them with gradients."""
        self.eval_trainings = 0
        """Those of them in training mode."""
        self.forward_line: Place = (None, None, None)
        self.told = False


class Models:
    """Knows the outermost modules and the optimizers."""

    def __init__(self, probe: Probe) -> None:
        self._probe = probe
        self._models: dict[int, Model] = {}
        self._optimizers: dict[int, tuple[Any, bool]] = {}
        self._eval_places: dict[int, Place] = {}
        self.autocast: str | None = None
        """The data type of autocast seen in training."""
        self.forwards = 0
        """Calls of outermost modules that were looked at."""
        self.version = 0
        """Rises whenever a model or an optimizer is new."""
        self.made: dict[int, Place] = {}
        """Where optimizers were made, by id."""

    def called(self, module: Any, grad: bool, evaluation: bool) -> None:
        """The outermost module is called."""
        model = self._models.get(id(module))
        if model is None or model.module() is not module:
            if len(self._models) >= _MODELS:
                for key in [key for key, known in self._models.items() if known.module() is None]:
                    del self._models[key]
                if len(self._models) >= _MODELS:
                    return
            model = self._models[id(module)] = Model(module)
            model.forward_line = where(self._probe.places.user_frame(sys._getframe(3)))
        model.calls += 1
        self.forwards += 1
        if evaluation:
            model.evaluations += 1
            model.eval_grads += grad
            model.eval_trainings += module.training
        elif grad:
            if not model.grad_calls:
                self.version += 1
            model.grad_calls += 1
            if not module.training:
                model.eval_calls += 1

    def see_autocast(self) -> None:
        """A training forward begins, some steps only."""
        torch = self._probe.torch
        for device in ("cuda", "cpu"):
            if _autocast_on(torch, device):
                self.autocast = str(torch.get_autocast_dtype(device)).replace("torch.", "")

    def put_to_eval(self, module: Any, frame: FrameType | None) -> None:
        """`module.eval()` was called."""
        if len(self._eval_places) < 256:
            self._eval_places[id(module)] = where(self._probe.places.user_frame(frame))

    def all(self) -> list[tuple[Any, Model]]:
        """The modules that are still there, the largest first."""
        pairs = [(model.module(), model) for model in list(self._models.values())]
        alive = [(module, model) for module, model in pairs if module is not None]
        return sorted(alive, key=lambda pair: -sum(1 for _ in pair[0].parameters()))

    def trained(self) -> list[Any]:
        """Modules called with gradients, without those that are part of another."""
        modules = [module for module, model in self.all() if model.grad_calls]
        inner: set[int] = set()
        for module in modules:
            inner.update(id(child) for child in list(module.modules())[1:])
        return [module for module in modules if id(module) not in inner]

    def stepped(self, optimizer: Any) -> None:
        """An optimizer makes a step; a new one's parameters are remembered."""
        known = self._optimizers.get(id(optimizer))
        if known is not None and known[0]() is optimizer:
            return
        self._optimizers[id(optimizer)] = (weakref.ref(optimizer), False)
        self.version += 1
        trained = self._probe.evaluation.trained
        for group in optimizer.param_groups:
            trained.update(map(id, group["params"]))

    def optimizers(self) -> list[Any]:
        """Those that have made a step."""
        return [
            found for found in (reference() for reference, _ in self._optimizers.values()) if found is not None
        ]

    def tell(self) -> None:
        """Write down what has not been told yet."""
        modules = self.trained()
        for module, model in self.all():
            if not model.told and (model.grad_calls or model.calls > 1):
                model.told = True
                if any(module is known for known in modules) or not model.grad_calls:
                    self._probe.record("model", {**model_facts(module), **_line(model.forward_line)})
        for key, (reference, told) in list(self._optimizers.items()):
            optimizer = reference()
            if optimizer is not None and not told:
                self._optimizers[key] = (reference, True)
                fields = optimizer_facts(optimizer, modules)
                self._probe.record(
                    "optimizer", {**fields, **_line(self.made.get(id(optimizer), (None, None, None)))}
                )

    def parallel_facts(self) -> dict[str, Any]:
        """What the `torch` record says of autocast and of DDP."""
        facts: dict[str, Any] = {"autocast": self.autocast}
        for module, _ in self.all():
            if wrapper(module) == "DDP" and hasattr(module, "find_unused_parameters"):
                data = module._get_ddp_logging_data()
                facts["find_unused"] = bool(module.find_unused_parameters)
                facts["unused"] = bool(data.get("unused_parameter_size"))
        return facts

    def tell_ddp(self) -> None:
        """Write down what DDP measures of itself on some steps, in nanoseconds."""
        for module, _ in self.all():
            if wrapper(module) == "DDP" and hasattr(module, "_get_ddp_logging_data"):
                data = module._get_ddp_logging_data()
                fields = {name: data[name] for name in _DDP if data.get(name)}
                if fields:
                    self._probe.record("ddp", {"step": self._probe.steps.index, **fields})

    def tell_modes(self) -> None:
        """Write down models that ran in a mode, or with gradients, that does not go with what they were for."""
        pairs = self.all()
        trains = {id(module): self._probe.evaluation.trains(module) for module, _ in pairs}
        for module, model in pairs:
            place, eval_place = model.forward_line, self._eval_places.get(id(module), model.forward_line)
            facts: dict[str, Any] = {
                "model": class_name(unwrapped(module)),
                "affected": _mode_dependent(module),
            }
            if trains[id(module)] and facts["affected"]:
                if model.eval_calls >= FEW:
                    self._tell_mode("eval-training", model.eval_calls, model.grad_calls, eval_place, facts)
                if model.eval_trainings >= FEW:
                    self._tell_mode("train-evaluation", model.eval_trainings, model.evaluations, place, facts)
            if trains[id(module)] and model.eval_grads >= FEW:
                self._tell_mode("grad-evaluation", model.eval_grads, model.evaluations, place, facts)
            learns = any(parameter.requires_grad for parameter in module.parameters())
            if any(trains.values()) and not trains[id(module)] and learns and model.grad_calls >= FEW:
                reached = any(parameter.grad is not None for parameter in module.parameters())
                facts |= {"reached": reached, "training": bool(module.training)}
                self._tell_mode("teacher-grad", model.grad_calls, model.calls, place, facts)

    def _tell_mode(self, kind: str, steps: int, of: int, place: Place, facts: dict[str, Any]) -> None:
        fields = {"kind": "mode", "kind_of": kind, "step": self._probe.steps.index, "steps": steps, "of": of}
        self._probe.record("numeric", {**fields, **facts, **_line(place)})


def _autocast_on(torch: Any, device: str) -> bool:
    return hasattr(torch, "get_autocast_dtype") and bool(torch.is_autocast_enabled(device))


def _mode_dependent(module: Any) -> list[str]:
    """Kinds of its parts that behave otherwise in training: dropout that drops, normalisation by the batch."""
    names = set()
    for part in module.modules():
        name = type(part).__name__
        rate: Any = getattr(part, "p", None)
        if "BatchNorm" in name or ("Dropout" in name and rate):
            names.add(name)
    return sorted(names)


def _line(place: Place) -> dict[str, Any]:
    return {"path": place[0], "line": place[1]}


def maker(probe: Probe, frame: FrameType | None) -> Place:
    """Where the user's code made something."""
    return where(probe.places.user_frame(frame))


def model_facts(module: Any) -> dict[str, Any]:
    """What a model is: the `model` record without its line."""
    inner = unwrapped(module)
    parameters = list(module.parameters())
    kinds: dict[str, int] = {}
    for parameter in parameters:
        kind = str(parameter.dtype).replace("torch.", "")
        kinds[kind] = kinds.get(kind, 0) + parameter.numel()
    return {
        "name": class_name(inner),
        "parameters": sum(parameter.numel() for parameter in parameters),
        "trainable": sum(parameter.numel() for parameter in parameters if parameter.requires_grad),
        "bytes": sum(parameter.numel() * parameter.element_size() for parameter in parameters),
        "dtypes": kinds,
        "device": str(parameters[0].device) if parameters else None,
        "wrapped": wrapper(module),
        "compiled": type(module).__name__ == "OptimizedModule" or _compiled(module),
        "training": bool(module.training),
        "flops": None,
    }


def _compiled(module: Any) -> bool:
    return any(getattr(child, "_compiled_call_impl", None) is not None for child in module.modules())


def wrapper(module: Any) -> str | None:
    """`DDP`, `FSDP`, `DataParallel` or None."""
    for child in (module, getattr(module, "_orig_mod", None)):
        for base in type(child).__mro__:
            if base.__name__ in _WRAPPERS:
                return _WRAPPERS[base.__name__]
            if base.__name__ == "FSDPModule":
                return "FSDP"
    return None


def class_name(module: Any) -> str:
    """The user's class: `fully_shard` makes a class of its own before it, by the name of both."""
    kinds = [kind.__name__ for kind in type(module).__mro__]
    return kinds[2] if kinds[1:2] == ["FSDPModule"] and len(kinds) > 3 else kinds[0]


def unwrapped(module: Any) -> Any:
    """The user's model inside the wrappers of compile and parallelism."""
    for _ in range(4):
        inner = getattr(module, "_orig_mod", None)
        if inner is None and type(module).__name__ in _INNER:
            inner = getattr(module, "module", None)
        if inner is None:
            break
        module = inner
    return module


def optimizer_facts(optimizer: Any, modules: list[Any]) -> dict[str, Any]:
    """What an optimizer is: the `optimizer` record without its line."""
    held = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
    first = optimizer.param_groups[0] if optimizer.param_groups else {}
    rates = [_number(group.get("lr")) for group in optimizer.param_groups]
    missing = [
        name
        for module in modules
        for name, parameter in unwrapped(module).named_parameters()
        if parameter.requires_grad and id(parameter) not in held
    ]
    return {
        "name": type(optimizer).__name__,
        "groups": len(optimizer.param_groups),
        "parameters": sum(p.numel() for group in optimizer.param_groups for p in group["params"]),
        "lr": rates[0] if rates else None,
        "rates": rates[:16],
        "foreach": first.get("foreach"),
        "fused": first.get("fused"),
        "missing": missing[:64],
        "missing_count": len(missing),
    }


def _number(value: Any) -> float | None:
    """A rate; one that is a tensor on a device would have to be waited for."""
    if isinstance(value, (int, float)):
        return float(value)
    if getattr(getattr(value, "device", None), "type", "") == "cpu":
        return float(value)
    return None
