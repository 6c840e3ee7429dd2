"""Models and optimizers that take part: which they are, and what is told of them once."""

from __future__ import annotations

import sys
import weakref
from types import FrameType
from typing import TYPE_CHECKING, Any

from .call_sites import Place, where
from .clock import EVALUATION
from .table import OTHER

if TYPE_CHECKING:
    from .probe import Probe

_MODELS = 32
"""Outermost modules that are remembered."""
_SHARDED = "_fsdp_wrapped_module."
"""What FSDP puts into the names of parameters, and takes out where it lists them."""
FEW = 3
"""Calls in a wrong mode before it is told."""
_NOWHERE: Place = (None, None, None)
_WRAPPERS = {"DistributedDataParallel": "DDP", "FullyShardedDataParallel": "FSDP", "DataParallel": "DataParallel"}

_INNER = frozenset({*_WRAPPERS, "DeepSpeedEngine"})
"""Classes that hold the user's model as `module`."""


def parts(module: Any) -> dict[str, Any]:
    """A module and all inside it, by path; `modules()` and its kin may be the program's own code."""
    found: dict[str, Any] = {}
    seen: set[int] = set()
    open_ = [("", module)]
    while open_:
        path, part = open_.pop()
        if part is None or id(part) in seen:
            continue
        seen.add(id(part))
        found[path] = part
        inner = [(f"{path}.{name}" if path else name, child) for name, child in part._modules.items()]
        open_.extend(reversed(inner))
    return found


def parameters(module: Any) -> dict[str, Any]:
    """The parameters of a module and all inside it, each once, by name."""
    found: dict[str, Any] = {}
    seen: set[int] = set()
    for path, part in parts(module).items():
        for name, parameter in part._parameters.items():
            if parameter is not None and id(parameter) not in seen:
                seen.add(id(parameter))
                found[(f"{path}.{name}" if path else name).replace(_SHARDED, "")] = parameter
    return found


class Model:
    """An outermost module that was called."""

    def __init__(self, module: Any) -> None:
        self.module = weakref.ref(module)
        self.calls = 0
        self.grad_calls = 0
        """Calls with gradients, in training."""
        self.eval_calls = 0
        """Those of them in eval mode."""
        self.open = 0
        """Calls in eval mode with gradients that no backward pass has followed so far."""
        self.evaluations = 0
        """Calls in an evaluation."""
        self.eval_grads = 0
        """Those of them with gradients."""
        self.eval_trainings = 0
        """Those of them in training mode."""
        self.forward_line: Place = _NOWHERE
        self.evaluation_line: Place = _NOWHERE
        """Where it was first called in an evaluation with gradients or in training mode."""
        self.open_line: Place = _NOWHERE
        """Where it was first called so."""
        self.told = False
        self.inside: set[int] | None = None
        """Ids of the modules in it, once they were asked for: a large tree takes long to walk."""

    def holds(self, key: int) -> bool:
        """Whether a module, by its id, is this one or a part of it."""
        module = self.module()
        if self.inside is None and module is not None:
            self.inside = set(map(id, parts(module).values()))
        return self.inside is not None and key in self.inside


class Models:
    """Knows the outermost modules and the optimizers."""

    def __init__(self, probe: Probe) -> None:
        self._probe = probe
        self._models: dict[int, Model] = {}
        self._optimizers: dict[int, tuple[Any, bool]] = {}
        self._eval_places: dict[int, Place] = {}
        self._open: dict[int, Model] = {}
        """Models that were called in eval mode with gradients since the last backward pass."""
        self._recent: Model | None = None
        """The one of the last call of all."""
        self._guessed: Model | None = None
        """The one of the last call, where that was taken for an evaluation's by its mode alone."""
        self.autocast: str | None = None
        """The data type of autocast seen in training."""
        self.forwards = 0
        """Calls of outermost modules that were looked at."""
        self.version = 0
        """Rises whenever a model or an optimizer is new."""
        self.made: dict[int, Place] = {}
        """Where optimizers were made, by id."""

    def again(self) -> None:
        """For a new recording no model has been called and nothing told; optimizers are known already."""
        self._models.clear()
        self._open.clear()
        self._guessed = self._recent = None
        self._optimizers = {key: (reference, False) for key, (reference, _) in self._optimizers.items()}

    def called(self, module: Any, grad: bool, evaluation: bool) -> None:
        """The outermost module is called."""
        model = self._recent
        if model is None or model.module() is not module:
            model = self._recent = self._known(module)
            if model is None:
                return
        model.calls += 1
        self.forwards += 1
        if evaluation:
            model.evaluations += 1
            model.eval_grads += grad
            model.eval_trainings += module.training
            self._guessed = model if grad and not module.training else None
            if (grad or module.training) and model.evaluation_line is _NOWHERE:
                model.evaluation_line = where(self._probe.places.user_frame(sys._getframe(3)))
        elif grad:
            self._guessed = None
            if module.training:
                self.version += not model.grad_calls
                model.grad_calls += 1
                for key in [key for key in self._open if model.holds(key)]:
                    self._was_evaluation(self._open.pop(key))
            else:
                if not model.open:
                    self._open[id(module)] = model
                    if model.open_line is _NOWHERE:
                        model.open_line = where(self._probe.places.user_frame(sys._getframe(3)))
                model.open += 1

    def _was_evaluation(self, model: Model) -> None:
        """What a model did in eval mode without a backward pass was an evaluation that keeps its graphs."""
        model.evaluations += model.open
        model.eval_grads += model.open
        model.open = 0
        if model.evaluation_line is _NOWHERE:
            model.evaluation_line = model.open_line

    def again_called(self, args: Any) -> bool:
        """The same of a model in training, with gradients; False: nothing was done, it is not as ever."""
        module = args[0]
        if not module.training or self._probe.evaluation.streak or not self._probe.torch.is_grad_enabled():
            return False
        model = self._models.get(id(module))
        if model is None or self._open or not model.grad_calls or model.module() is not module:
            return False
        model.calls += 1
        model.grad_calls += 1
        self._guessed = None
        return True

    def _known(self, module: Any) -> Model | None:
        model = self._models.get(id(module))
        if model is None or model.module() is not module:
            if len(self._models) >= _MODELS:
                for key in [key for key, known in self._models.items() if known.module() is None]:
                    del self._models[key]
                if len(self._models) >= _MODELS:
                    return None
            model = self._models[id(module)] = Model(module)
            model.forward_line = where(self._probe.places.user_frame(sys._getframe(1)))
            self.version += 1
        return model

    def backward(self) -> None:
        """A backward pass is over: what was called before it was called in training."""
        if self._open:
            for known in self._open.values():
                self.version += not known.grad_calls
                known.grad_calls += 1
                known.eval_calls += 1
                known.open = 0
            self._open.clear()
        model = self._guessed
        if model is not None:
            self._guessed = None
            model.evaluations -= 1
            model.eval_grads -= 1
            model.grad_calls += 1
            model.eval_calls += 1
            if not model.evaluations:
                model.evaluation_line = _NOWHERE

    def evaluates(self, module: Any) -> bool:
        """Whether a module in eval mode with gradients was so far only called to evaluate."""
        model = self._models.get(id(module))
        return model is not None and not module.training and model.eval_grads > 0 and not model.eval_calls

    def see_autocast(self) -> None:
        """A training forward begins, some steps only."""
        torch = self._probe.torch
        for device in ("cuda", "cpu"):
            if torch.is_autocast_enabled(device):
                self.autocast = str(torch.get_autocast_dtype(device)).replace("torch.", "")

    def put_to_eval(self, module: Any, frame: FrameType | None) -> None:
        """`module.eval()` was called."""
        if len(self._eval_places) < 256:
            self._eval_places[id(module)] = where(self._probe.places.user_frame(frame))

    def all(self) -> list[tuple[Any, Model]]:
        """The modules that are still there, the largest first."""
        pairs = [(model.module(), model) for model in list(self._models.values())]
        alive = [(module, model) for module, model in pairs if module is not None]
        return sorted(alive, key=lambda pair: -len(parameters(pair[0])))

    def trained(self) -> list[Any]:
        """Modules called with gradients, without those that are part of another."""
        modules = [module for module, model in self.all() if model.grad_calls]
        inner: set[int] = set()
        for module in modules:
            inner.update(id(child) for child in list(parts(module).values())[1:])
        return [module for module in modules if id(module) not in inner]

    def untrained(self) -> list[Any]:
        """Modules that were called, and never with gradients, the largest first."""
        return [module for module, model in self.all() if not model.grad_calls]

    def stepped(self, optimizer: Any, key: int) -> None:
        """An optimizer, by its id, makes a step; a new one's parameters are remembered."""
        known = self._optimizers.get(key)
        if known is not None and known[0]() is optimizer:
            return
        self._optimizers[key] = (weakref.ref(optimizer), False)
        self.version += 1
        trained = self._probe.evaluation.trained
        for group in optimizer.param_groups:
            trained.update(map(id, group["params"]))

    def optimizers(self) -> list[Any]:
        """Those that have made a step."""
        return [found for found in (reference() for reference, _ in self._optimizers.values()) if found is not None]

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
                fields = optimizer_facts(optimizer, modules, self.optimizers())
                self._probe.record("optimizer", {**fields, **_line(self.made.get(id(optimizer), _NOWHERE))})

    def parallel_facts(self) -> dict[str, Any]:
        """What the `torch` record says of autocast and of DDP."""
        facts: dict[str, Any] = {"autocast": self.autocast}
        for module, _ in self.all():
            if wrapper(module) == "DDP" and hasattr(module, "find_unused_parameters"):
                data = module._get_ddp_logging_data()
                facts["find_unused"] = bool(module.find_unused_parameters)
                facts["unused"] = bool(data.get("unused_parameter_size"))
        return facts

    def tell_modes(self) -> None:
        """Write down models that ran in a mode, or with gradients, that does not go with what they were for."""
        pairs = self.all()
        trains = {id(module): self._probe.evaluation.trains(module) for module, _ in pairs}
        for module, model in pairs:
            place, eval_place = model.forward_line, self._eval_places.get(id(module), model.forward_line)
            at = place if model.evaluation_line is _NOWHERE else model.evaluation_line
            facts: dict[str, Any] = {"model": class_name(unwrapped(module)), "affected": _mode_dependent(module)}
            if trains[id(module)] and facts["affected"]:
                if model.eval_calls >= FEW:
                    self._tell_mode("eval-training", model.eval_calls, model.grad_calls, eval_place, facts)
                if model.eval_trainings >= FEW:
                    self._tell_mode("train-evaluation", model.eval_trainings, model.evaluations, at, facts)
            if trains[id(module)] and model.eval_grads >= FEW:
                self._tell_mode("grad-evaluation", model.eval_grads, model.evaluations, at, facts)
            learns = any(parameter.requires_grad for parameter in parameters(module).values())
            if any(trains.values()) and not trains[id(module)] and learns and model.grad_calls >= FEW:
                reached = any(p.grad is not None for p in parameters(module).values())
                facts |= {"reached": reached, "training": bool(module.training)}
                self._tell_mode("teacher-grad", model.grad_calls, model.calls, place, facts)

    def _tell_mode(self, kind: str, steps: int, of: int, place: Place, facts: dict[str, Any]) -> None:
        fields = {"kind": "mode", "kind_of": kind, "step": self._probe.steps.index, "steps": steps, "of": of}
        self._probe.record("numeric", {**fields, **facts, **_line(place)})


def _mode_dependent(module: Any) -> list[str]:
    """Kinds of its parts that behave otherwise in training: dropout that drops, normalisation by the batch."""
    names = set()
    for part in parts(module).values():
        name = type(part).__name__
        rate: Any = vars(part).get("p")
        if "BatchNorm" in name or ("Dropout" in name and rate):
            names.add(name)
    return sorted(names)


def _line(place: Place) -> dict[str, Any]:
    return {"path": place[0], "line": place[1]}


def model_facts(module: Any) -> dict[str, Any]:
    """What a model is: the `model` record without its line."""
    inner = unwrapped(module)
    own = list(parameters(module).values())
    kinds: dict[str, int] = {}
    for parameter in own:
        kind = str(parameter.dtype).replace("torch.", "")
        kinds[kind] = kinds.get(kind, 0) + parameter.numel()
    return {
        "name": class_name(inner),
        "parameters": sum(parameter.numel() for parameter in own),
        "trainable": sum(parameter.numel() for parameter in own if parameter.requires_grad),
        "bytes": sum(parameter.numel() * parameter.element_size() for parameter in own),
        "dtypes": kinds,
        "device": str(own[0].device) if own else None,
        "wrapped": wrapper(module),
        "compiled": type(module).__name__ == "OptimizedModule"
        or any(getattr(child, "_compiled_call_impl", None) is not None for child in parts(module).values()),
        "training": bool(module.training),
        "flops": None,
    }


def inner_module(module: Any, name: str) -> Any:
    """A part of a module, without asking a `__getattr__` of the program's; None without it."""
    parts = module.__dict__.get("_modules", {})  # a scripted module's has no `get`
    return next((part for known, part in parts.items() if known == name), None)


def wrapper(module: Any) -> str | None:
    """`DDP`, `FSDP`, `DataParallel` or None."""
    for child in (module, inner_module(module, "_orig_mod")):
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
        inner = inner_module(module, "_orig_mod")
        if inner is None and type(module).__name__ in _INNER:
            inner = inner_module(module, "module")
        if inner is None:
            break
        module = inner
    return module


def optimizer_facts(optimizer: Any, modules: list[Any], every: list[Any]) -> dict[str, Any]:
    """What an optimizer is, of every one that makes steps: the `optimizer` record without its line."""
    held = held_by(optimizer)
    first = optimizer.param_groups[0] if optimizer.param_groups else {}
    missing = [
        name
        for module in modules
        for name, parameter in parameters(unwrapped(module)).items()
        if parameter.requires_grad and id(parameter) not in held
    ]
    return {
        "name": type(optimizer).__name__,
        "parameters": sum(p.numel() for group in optimizer.param_groups for p in group["params"]),
        "lr": _number(first.get("lr")),
        "foreach": first.get("foreach"),
        "fused": first.get("fused"),
        "missing": missing[:64],
        "missing_count": len(missing),
        "twin": any(other is not optimizer and held_by(other) == held for other in every),
    }


def held_by(optimizer: Any) -> set[int]:
    """Ids of the parameters that an optimizer has."""
    return {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}


def _number(value: Any) -> float | None:
    """A rate; one that is a tensor on a device would have to be waited for."""
    return float(value) if isinstance(value, (int, float)) else None


# Whether the loop is training or evaluating: loops do not say so, it shows in what they do. An evaluation begins with
# a second loader that no backward pass follows, or with a forward of the trained model in eval mode without
# gradients, and lasts until training goes on. Frameworks that say so are believed. With gradients it is known by its
# first time: no backward pass came before the model was back in training mode.


class Evaluation:
    """Switches the clock between training and evaluation."""

    def __init__(self, probe: Probe) -> None:
        self._probe = probe
        self._clock = probe.clock
        self.declared = 0
        """Depth of calls that say that they evaluate (`Trainer.evaluate`)."""
        self.by_loader = False
        self.trained: set[int] = set()
        """Ids of the parameters that optimizers hold."""
        self.streak = 0
        """Calls of models in eval mode without gradients, one after the other."""
        self._trains: dict[int, tuple[int, Any, bool]] = {}

    def begin(self, by_loader: bool = False) -> None:
        """The loop evaluates from now on, unless nothing at all is trained here."""
        steps = self._probe.steps
        if self._clock.phase == OTHER and (steps.backwards or steps.optimizers):
            self._clock.switch(EVALUATION)
            self.by_loader = by_loader

    def finish(self) -> None:
        """The loop trains (again)."""
        self.streak = 0
        if self._clock.phase == EVALUATION and not self.declared:
            self._clock.switch(OTHER)

    def undeclared(self) -> bool:
        """Whether an evaluation is on that nobody declared, so that its end is not known."""
        return self._clock.phase == EVALUATION and not self.declared

    def forward(self, module: Any, grad: bool) -> None:
        """The outermost module is about to be called, with or without gradients."""
        if grad and not module.training and self._probe.models.evaluates(module):
            self.begin()
        elif self._clock.phase == EVALUATION:
            if grad and not self.by_loader:
                self.finish()
        elif not grad and not module.training and self._clock.phase == OTHER:
            self.streak += 1
            if self.streak > 1 or self.trains(module):
                self.begin()
        elif grad:
            self.streak = 0

    def trains(self, module: Any) -> bool:
        """Whether a module has parameters that are trained (a frozen teacher has none)."""
        known = self._trains.get(id(module))
        version = self._probe.models.version
        if known is None or known[0] != version or known[1]() is not module:
            trains = any(id(parameter) in self.trained for parameter in parameters(module).values())
            known = self._trains[id(module)] = version, weakref.ref(module), trains
        return known[2]
