"""Overrides of one setting each: of loaders, optimizers, models, torch, DistributedDataParallel and trainers.

Each `apply_...(trial, detail, value)` serves one topic of `TOPICS`; the comment above it names its settings.
"""

from __future__ import annotations

import inspect
import sys
import weakref
from typing import TYPE_CHECKING, Any

from .patching import at_first_forward, inner, plain, truth, wrap

if TYPE_CHECKING:
    from . import Trial

# `DataLoader.num_workers`, `.pin_memory`, `.persistent_workers`, `.prefetch_factor`, `.batch_size`.

_LOADER_SETTINGS: dict[str, Any] = {}
_KEPT: Any = weakref.WeakSet()
"""Loaders whose workers live on because a trial says so."""
_NEED_WORKERS = ("persistent_workers", "prefetch_factor", "multiprocessing_context", "timeout")


def apply_loader(trial: Trial, detail: str, value: Any) -> None:
    """Change what loaders are made with; all overrides of loaders share one wrapper."""
    first = not _LOADER_SETTINGS
    _LOADER_SETTINGS[detail] = plain(value)
    if first:
        dataloader: Any = sys.modules["torch.utils.data.dataloader"]
        wrap(dataloader.DataLoader, "__init__", lambda original: _making_loader(trial, original))
        wrap(dataloader.DataLoader, "__iter__", lambda original: _drawing_as_before(trial.torch, original))


def _drawing_as_before(torch: Any, original: Any) -> Any:
    """`iter` of a loader that draws the number which torch leaves out where workers live on.

    Without it a shuffle has another order from the second epoch on, and the loss moves for no other reason.
    """

    def __iter__(self: Any) -> Any:
        if self in _KEPT and getattr(self, "_iterator", None) is not None:
            torch.empty((), dtype=torch.int64).random_(generator=self.generator)
        return original(self)

    return __iter__


def _making_loader(trial: Trial, original: Any) -> Any:
    names = list(inspect.signature(original).parameters)[1:]

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        given = {**dict(zip(names, args)), **kwargs}
        settings = changed_loader(trial, given)
        original(self, **settings)
        if settings.get("persistent_workers") and not given.get("persistent_workers"):
            _KEPT.add(self)

    return __init__


def changed_loader(trial: Trial, given: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a loader with the overrides in place; a stream's workers are its program's affair."""
    settings = dict(_LOADER_SETTINGS)
    dataset = given.get("dataset")
    if "num_workers" in settings and isinstance(dataset, trial.torch.utils.data.IterableDataset):
        del settings["num_workers"]
    if given.get("batch_sampler") is not None or given.get("batch_size", 1) is None:
        settings.pop("batch_size", None)
    result = {**given, **settings}
    if not result.get("num_workers"):
        for name in _NEED_WORKERS:
            result.pop(name, None)
    for name in settings:
        if name in result:
            trial.reached(f"DataLoader.{name}")
    return result


# `transfer.non_blocking`: copies of pinned batches to the device that the training does not wait for.


def apply_transfer(trial: Trial, _detail: str, value: Any) -> None:
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


# `optimizer.fused`, `optimizer.foreach`: how the optimizer goes over its parameters.

_OTHER_LOOP = {"fused": "foreach", "foreach": "fused"}


def apply_optimizer(trial: Trial, detail: str, value: Any) -> None:
    """Pass the argument to every optimizer of torch that takes it."""
    for kind in vars(trial.torch.optim).values():
        if isinstance(kind, type) and detail in inspect.signature(kind).parameters:
            wrap(kind, "__init__", lambda original: _making_optimizer(trial, original, detail, truth(value)))


def _making_optimizer(trial: Trial, original: Any, name: str, value: bool) -> Any:
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        if value:
            kwargs.pop(_OTHER_LOOP[name], None)
        original(self, *args, **{**kwargs, name: value})
        trial.reached(f"optimizer.{name}")

    return __init__


# `attention.implementation`: `sdpa`, `flash_attention_2` or `eager` for a model of transformers.


def apply_attention(trial: Trial, _detail: str, value: Any) -> None:
    """Set it on the model before its first forward."""

    def switch(module: Any) -> None:
        for part in inner(module).modules():
            if hasattr(part, "set_attn_implementation"):
                part.set_attn_implementation(str(value))
                trial.reached("attention.implementation")
                return

    at_first_forward(trial, switch)


# `autocast.dtype`: forwards and losses of the training in bfloat16 or float16.


def apply_autocast(trial: Trial, _detail: str, value: Any) -> None:
    """The model's own `forward` under autocast; what it returns is float32 again, as accelerate does it."""
    torch = trial.torch
    dtype = {"bf16": torch.bfloat16, "bfloat16": torch.bfloat16, "fp16": torch.float16, "float16": torch.float16}[
        str(value)
    ]

    def under_autocast(module: Any) -> None:
        original = module.forward
        device = next(module.parameters()).device.type

        def forward(*args: Any, **kwargs: Any) -> Any:
            with torch.autocast(device, dtype=dtype):
                result = original(*args, **kwargs)
            return _wide(torch, result)

        module.forward = forward
        trial.reached("autocast.dtype")

    at_first_forward(trial, under_autocast)


def _wide(torch: Any, value: Any) -> Any:
    """The same nest of values with half precision tensors as float32."""
    if isinstance(value, torch.Tensor):
        return value.float() if value.dtype in (torch.bfloat16, torch.float16) else value
    if isinstance(value, dict):
        for key in list(value):
            value[key] = _wide(torch, value[key])
        return value
    if type(value) in (list, tuple):
        return type(value)(_wide(torch, item) for item in value)
    return value


# `checkpointing.enabled`: activation checkpointing off, or on where the model offers it.

_CHECKPOINT_OPTIONS = {"use_reentrant", "preserve_rng_state", "context_fn", "determinism_check", "debug", "early_stop"}


def apply_checkpointing(trial: Trial, _detail: str, value: Any) -> None:
    """Replace `torch.utils.checkpoint.checkpoint`, or ask the model for checkpointing."""
    if truth(value):
        at_first_forward(trial, lambda module: _checkpoint(trial, inner(module)))
        return

    def off(module: Any) -> None:
        wrap(module, "checkpoint", lambda _original: _direct(trial))

    trial.probe.when_imported("torch.utils.checkpoint", off)
    trial.probe.when_imported("transformers.modeling_utils", lambda module: _without_checkpoints(trial, module))


def _checkpoint(trial: Trial, model: Any) -> None:
    model.gradient_checkpointing_enable()
    trial.reached("checkpointing.enabled")


def _direct(trial: Trial) -> Any:
    def checkpoint(function: Any, *args: Any, **kwargs: Any) -> Any:
        trial.reached("checkpointing.enabled")
        return function(*args, **{name: value for name, value in kwargs.items() if name not in _CHECKPOINT_OPTIONS})

    return checkpoint


def _without_checkpoints(trial: Trial, module: Any) -> None:
    def enable(_self: Any, *_args: Any, **_kwargs: Any) -> None:
        trial.reached("checkpointing.enabled")

    wrap(module.PreTrainedModel, "gradient_checkpointing_enable", lambda _original: enable)


# `memory_format.channels_last`: weights and images of a convolutional network, channels innermost.


def apply_memory_format(trial: Trial, _detail: str, value: Any) -> None:
    """Convert the model before its first forward, and each batch of images after it."""
    if not truth(value):
        return
    torch = trial.torch

    def convert(module: Any) -> None:
        module.to(memory_format=torch.channels_last)
        module.register_forward_pre_hook(lambda _module, args: tuple(map(innermost, args)))
        trial.reached("memory_format.channels_last")

    def innermost(item: Any) -> Any:
        if isinstance(item, torch.Tensor) and item.dim() == 4:
            return item.contiguous(memory_format=torch.channels_last)
        return item

    at_first_forward(trial, convert)


# `torch.compile`: the model compiled in place.


def compile_model(trial: Trial, _detail: str, value: Any) -> None:
    """`model` with the default mode, or a mode of `torch.compile`."""
    options = {} if str(value).lower() in {"model", "true", "default"} else {"mode": str(value)}

    def compile_(module: Any) -> None:
        module.compile(**options)
        trial.reached("torch.compile")

    at_first_forward(trial, compile_)


def apply_torch(trial: Trial, detail: str, value: Any) -> None:
    """Set it now and again after the first step: what the program sets itself is what is being tried out."""
    if detail == "compile":
        compile_model(trial, detail, value)
        return
    setter = _torch_setter(trial.torch, detail, value)
    setter()

    def stepped() -> None:
        if trial.probe.steps.index == 1:
            setter()
            trial.reached(f"torch.{detail}")

    trial.probe.steps.after.append(stepped)


def _torch_setter(torch: Any, detail: str, value: Any) -> Any:
    if detail == "float32_matmul_precision":
        return lambda: torch.set_float32_matmul_precision(str(value))
    if detail == "num_threads":
        return lambda: torch.set_num_threads(int(value))
    if detail == "use_deterministic_algorithms":
        return lambda: torch.use_deterministic_algorithms(truth(value))
    *path, last = detail.split(".")
    owner = torch
    for name in path:
        owner = getattr(owner, name)
    getattr(owner, last)  # an AttributeError says that there is no such switch
    return lambda: setattr(owner, last, plain(value))


# `ddp.find_unused_parameters`, `.bucket_cap_mb`, `.gradient_as_bucket_view`, `.static_graph`, and
# `ddp.no_sync`.
#
# `no_sync` is the number of backward passes a step: only the last of them exchanges gradients.


def apply_ddp(trial: Trial, detail: str, value: Any) -> None:
    """Change what DistributedDataParallel is made with, or when it exchanges."""
    module = "torch.nn.parallel.distributed"
    if detail == "no_sync":
        trial.probe.when_imported(module, lambda found: _no_sync(trial, found, int(value)))
    else:
        trial.probe.when_imported(module, lambda found: _ddp_argument(trial, found, detail, plain(value)))


def _ddp_argument(trial: Trial, module: Any, name: str, value: Any) -> None:
    def make(original: Any) -> Any:
        def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
            original(self, *args, **{**kwargs, name: value})
            trial.reached(f"ddp.{name}")

        return __init__

    wrap(module.DistributedDataParallel, "__init__", make)


def _no_sync(trial: Trial, module: Any, passes: int) -> None:
    steps = trial.probe.steps
    state = {"step": -1, "calls": 0}

    def make(original: Any) -> Any:
        def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
            if state["step"] != steps.index:
                state.update(step=steps.index, calls=0)
            state["calls"] += 1
            self.require_backward_grad_sync = state["calls"] >= passes
            trial.reached("ddp.no_sync")
            return original(self, *args, **kwargs)

        return forward

    wrap(module.DistributedDataParallel, "forward", make)


# `TrainingArguments.<field>`: arguments of transformers' and trl's trainers.

_TRAINING_FIELDS: dict[str, Any] = {}


def apply_training_arguments(trial: Trial, detail: str, value: Any) -> None:
    """Set the field before the arguments check themselves; subclasses (trl) go the same way."""
    first = not _TRAINING_FIELDS
    _TRAINING_FIELDS[detail] = plain(value)
    if first:
        trial.probe.when_imported("transformers.training_args", lambda module: _hook_training_arguments(trial, module))


def _hook_training_arguments(trial: Trial, module: Any) -> None:
    def make(original: Any) -> Any:
        def __post_init__(self: Any) -> None:
            for name, value in _TRAINING_FIELDS.items():
                if not hasattr(self, name):
                    raise AttributeError(f"TrainingArguments has no {name}")
                setattr(self, name, value)
                trial.reached(f"TrainingArguments.{name}")
            original(self)

        return __post_init__

    wrap(module.TrainingArguments, "__post_init__", make)


# `lightning.<argument>`: arguments of Lightning's Trainer.


def apply_lightning(trial: Trial, detail: str, value: Any) -> None:
    """Pass the argument to every Trainer."""

    def make(original: Any) -> Any:
        def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
            original(self, *args, **{**kwargs, detail: plain(value)})
            trial.reached(f"lightning.{detail}")

        return __init__

    for module in ("lightning.pytorch.trainer.trainer", "pytorch_lightning.trainer.trainer"):
        trial.probe.when_imported(module, lambda found: wrap(found.Trainer, "__init__", make))
