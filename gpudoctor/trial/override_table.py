"""The overrides by name: what each does, which values it takes, and whether the numbers stay the same."""

from gpudoctor.lang import say
from gpudoctor.model import Applicability

SAFE, UNSAFE = Applicability.SAFE, Applicability.UNSAFE

OVERRIDES: dict[str, tuple[Applicability, str]] = {
    "DataLoader.num_workers": (SAFE, say("worker processes of every map-style loader")),
    "DataLoader.pin_memory": (SAFE, say("batches in pinned memory")),
    "DataLoader.persistent_workers": (SAFE, say("workers that live longer than an epoch")),
    "DataLoader.prefetch_factor": (SAFE, say("batches that each worker prepares ahead")),
    "DataLoader.batch_size": (UNSAFE, say("samples a batch")),
    "TrainingArguments.eval_steps": (SAFE, say("steps between two evaluations (transformers)")),
    "TrainingArguments.logging_steps": (SAFE, say("steps between two logs (transformers)")),
    "TrainingArguments.save_steps": (SAFE, say("steps between two checkpoints (transformers)")),
    "TrainingArguments.*": (UNSAFE, say("a field of transformers' TrainingArguments")),
    "attention.implementation": (UNSAFE, say("sdpa, flash_attention_2 or eager (transformers)")),
    "autocast.dtype": (UNSAFE, say("bf16 or fp16: the model's forward under autocast")),
    "autograd.detect_anomaly": (SAFE, say("anomaly mode off or on")),
    "checkpointing.enabled": (SAFE, say("activation checkpointing off, or on where the model offers it")),
    "collectives.for_data": (UNSAFE, say("the finding's broadcasts and gathers every so many steps, on all ranks")),
    "collectives.for_log": (SAFE, say("the finding's barriers and log reductions every so many steps, on all ranks")),
    "ddp.bucket_cap_mb": (SAFE, say("DDP's bucket size")),
    "ddp.find_unused_parameters": (SAFE, say("DDP's search of the graph for unused parameters")),
    "ddp.gradient_as_bucket_view": (SAFE, say("gradients that live in DDP's buckets")),
    "ddp.no_sync": (SAFE, say("backward passes a step of which only the last exchanges gradients")),
    "ddp.static_graph": (SAFE, say("a graph that never changes")),
    "env.*": (UNSAFE, say("an environment variable")),
    "env.OMP_NUM_THREADS": (SAFE, say("threads of one process")),
    "env.PYTORCH_CUDA_ALLOC_CONF": (SAFE, say("settings of the CUDA allocator")),
    "every": (SAFE, say("the finding's statements every so many steps")),
    "gc.collect": (SAFE, "gc.collect() off"),
    "gc.empty_cache": (SAFE, "torch.cuda.empty_cache() off"),
    "gc.synchronize": (SAFE, "torch.cuda.synchronize() off"),
    "lightning.log_every_n_steps": (SAFE, say("steps between two logs (Lightning)")),
    "lightning.val_check_interval": (SAFE, say("steps between two evaluations (Lightning)")),
    "lightning.*": (UNSAFE, say("an argument of Lightning's Trainer")),
    "memory_format.channels_last": (UNSAFE, say("channels innermost, for convolutions")),
    "optimizer.foreach": (SAFE, say("optimizers that update all parameters at once")),
    "optimizer.fused": (SAFE, say("optimizers in one kernel")),
    "profiler.enabled": (SAFE, say("profilers and FLOPs counters off")),
    "reads": (
        SAFE,
        say("the finding's reads of tensors deferred: sums stay on the device, and shown values are older"),
    ),
    "torch.*": (UNSAFE, say("any attribute of torch: torch.backends.cudnn.benchmark")),
    "torch.backends.cudnn.benchmark": (SAFE, say("cuDNN's search for the fastest kernel")),
    "torch.compile": (UNSAFE, say("model, or a mode: the model compiled in place")),
    "torch.float32_matmul_precision": (UNSAFE, say("high: TF32 in matrix products")),
    "torch.num_threads": (SAFE, say("threads inside an operation")),
    "trackers.period": (SAFE, say("steps between two calls of wandb, TensorBoard, mlflow")),
    "transfer.non_blocking": (SAFE, say("copies of pinned batches in the background")),
}
"""Name to whether results stay the same, and what it is; `topic.*` takes any detail."""

AT_PLACES = {
    "every": "source.every",
    "collectives.for_data": "source.calls",
    "collectives.for_log": "source.calls",
    "reads": "source.reads",
}
"""Overrides that change statements where a finding points, to the probe's name; their value is a period."""


def applicability(name: str) -> Applicability:
    """Whether an override leaves the numbers alone; one that nobody knows does not."""
    entry = _entry(name)
    return entry[0] if entry else UNSAFE


def is_known(name: str) -> bool:
    """Whether there is such an override."""
    return _entry(name) is not None


def _entry(name: str) -> tuple[Applicability, str] | None:
    if name in OVERRIDES:
        return OVERRIDES[name]
    return OVERRIDES.get(name.partition(".")[0] + ".*")


# What the overrides take: a value that cannot be tried is refused before anything runs.

_COUNTS = {
    "DataLoader.num_workers": 0,
    "DataLoader.prefetch_factor": 1,
    "DataLoader.batch_size": 1,
    "ddp.no_sync": 1,
    "torch.num_threads": 1,
    "trackers.period": 1,
}
"""Overrides that take a whole number, and the least one."""
_CHOICES = {
    "autocast.dtype": ("bf16", "bfloat16", "fp16", "float16"),
    "torch.float32_matmul_precision": ("highest", "high", "medium"),
}
_SWITCHES = {
    "DataLoader.pin_memory", "DataLoader.persistent_workers", "autograd.detect_anomaly",
    "checkpointing.enabled", "ddp.find_unused_parameters", "ddp.gradient_as_bucket_view",
    "ddp.static_graph", "gc.collect", "gc.empty_cache", "gc.synchronize", "memory_format.channels_last",
    "optimizer.foreach", "optimizer.fused", "profiler.enabled", "torch.backends.cudnn.benchmark",
    "transfer.non_blocking",
}  # fmt: skip
_TRUE, _FALSE = ("true", "1", "on", "yes"), ("false", "0", "off", "no")


def value_of(name: str, text: str) -> str:
    """A value as its override takes it. Raises `ValueError` with what it takes instead."""
    low = text.strip().lower()
    if name in _SWITCHES:
        if low not in _TRUE + _FALSE:
            raise ValueError(say("{name} takes true or false, not {text!r}", name=name, text=text))
        return str(low in _TRUE)
    if name in _CHOICES and low not in _CHOICES[name]:
        raise ValueError(
            say("{name} takes {choices}, not {text!r}", name=name, choices=", ".join(_CHOICES[name]), text=text)
        )
    if name in _COUNTS and not (low.isascii() and low.isdigit() and int(low) >= _COUNTS[name]):
        raise ValueError(
            say(
                "{name} takes a whole number from {counts} on, not {text!r}", name=name, counts=_COUNTS[name], text=text
            )
        )
    return low if name in _CHOICES or name in _COUNTS else text
