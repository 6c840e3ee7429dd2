"""The overrides by name: what each does, and whether the numbers stay the same."""

from gpudoctor.model import Applicability

SAFE, UNSAFE = Applicability.SAFE, Applicability.UNSAFE

OVERRIDES: dict[str, tuple[Applicability, str]] = {
    "DataLoader.num_workers": (SAFE, "worker processes of every map-style loader"),
    "DataLoader.pin_memory": (SAFE, "batches in pinned memory"),
    "DataLoader.persistent_workers": (SAFE, "workers that live longer than an epoch"),
    "DataLoader.prefetch_factor": (SAFE, "batches that each worker prepares ahead"),
    "DataLoader.batch_size": (UNSAFE, "samples a batch"),
    "TrainingArguments.eval_steps": (SAFE, "steps between two evaluations (transformers)"),
    "TrainingArguments.logging_steps": (SAFE, "steps between two logs (transformers)"),
    "TrainingArguments.save_steps": (SAFE, "steps between two checkpoints (transformers)"),
    "TrainingArguments.*": (UNSAFE, "a field of transformers' TrainingArguments"),
    "attention.implementation": (UNSAFE, "sdpa, flash_attention_2 or eager (transformers)"),
    "autocast.dtype": (UNSAFE, "bf16 or fp16: the model's forward under autocast"),
    "autograd.detect_anomaly": (SAFE, "anomaly mode off or on"),
    "checkpointing.enabled": (SAFE, "activation checkpointing off, or on where the model offers it"),
    "collectives.for_data": (UNSAFE, "the finding's broadcasts and gathers every so many steps, on all ranks"),
    "collectives.for_log": (
        SAFE,
        "the finding's barriers and log reductions every so many steps, on all ranks",
    ),
    "ddp.bucket_cap_mb": (SAFE, "DDP's bucket size"),
    "ddp.find_unused_parameters": (SAFE, "DDP's search of the graph for unused parameters"),
    "ddp.gradient_as_bucket_view": (SAFE, "gradients that live in DDP's buckets"),
    "ddp.no_sync": (SAFE, "backward passes a step of which only the last exchanges gradients"),
    "ddp.static_graph": (SAFE, "a graph that never changes"),
    "env.*": (UNSAFE, "an environment variable"),
    "env.OMP_NUM_THREADS": (SAFE, "threads of one process"),
    "env.PYTORCH_CUDA_ALLOC_CONF": (SAFE, "settings of the CUDA allocator"),
    "every": (SAFE, "the finding's statements every so many steps"),
    "gc.collect": (SAFE, "gc.collect() off"),
    "gc.empty_cache": (SAFE, "torch.cuda.empty_cache() off"),
    "gc.synchronize": (SAFE, "torch.cuda.synchronize() off"),
    "lightning.log_every_n_steps": (SAFE, "steps between two logs (Lightning)"),
    "lightning.val_check_interval": (SAFE, "steps between two evaluations (Lightning)"),
    "lightning.*": (UNSAFE, "an argument of Lightning's Trainer"),
    "memory_format.channels_last": (UNSAFE, "channels innermost, for convolutions"),
    "optimizer.foreach": (SAFE, "optimizers that update all parameters at once"),
    "optimizer.fused": (SAFE, "optimizers in one kernel"),
    "profiler.enabled": (SAFE, "profilers and FLOPs counters off"),
    "reads": (
        SAFE,
        "the finding's reads of tensors deferred: sums stay on the device, and shown values are older",
    ),
    "torch.*": (UNSAFE, "any attribute of torch: torch.backends.cudnn.benchmark"),
    "torch.backends.cudnn.benchmark": (SAFE, "cuDNN's search for the fastest kernel"),
    "torch.compile": (UNSAFE, "model, or a mode: the model compiled in place"),
    "torch.float32_matmul_precision": (UNSAFE, "high: TF32 in matrix products"),
    "torch.num_threads": (SAFE, "threads inside an operation"),
    "trackers.period": (SAFE, "steps between two calls of wandb, TensorBoard, mlflow"),
    "transfer.non_blocking": (SAFE, "copies of pinned batches in the background"),
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
