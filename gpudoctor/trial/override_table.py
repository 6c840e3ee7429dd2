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
    "ddp.bucket_cap_mb": (SAFE, say("DDP's bucket size")),
    "ddp.find_unused_parameters": (SAFE, say("DDP's search of the graph for unused parameters")),
    "ddp.gradient_as_bucket_view": (SAFE, say("gradients that live in DDP's buckets")),
    "ddp.static_graph": (SAFE, say("a graph that never changes")),
    "env.*": (UNSAFE, say("an environment variable")),
    "env.OMP_NUM_THREADS": (SAFE, say("threads of one process")),
    "env.PYTORCH_CUDA_ALLOC_CONF": (SAFE, say("settings of the CUDA allocator")),
    "every": (SAFE, say("the finding's statements every so many steps")),
    "lightning.log_every_n_steps": (SAFE, say("steps between two logs (Lightning)")),
    "lightning.val_check_interval": (SAFE, say("steps between two evaluations (Lightning)")),
    "lightning.*": (UNSAFE, say("an argument of Lightning's Trainer")),
    "optimizer.foreach": (SAFE, say("optimizers that update all parameters at once")),
    "optimizer.fused": (SAFE, say("optimizers in one kernel")),
    "torch.*": (UNSAFE, say("any attribute of torch: torch.backends.cudnn.benchmark")),
    "torch.backends.cudnn.benchmark": (SAFE, say("cuDNN's search for the fastest kernel")),
    "torch.float32_matmul_precision": (UNSAFE, say("high: TF32 in matrix products")),
    "torch.num_threads": (SAFE, say("threads inside an operation")),
}
"""Name to whether results stay the same, and what it is; `topic.*` takes any detail."""


def applicability(name: str) -> Applicability:
    """Whether an override leaves the numbers alone; one that nobody knows does not."""
    entry = _entry(name)
    return entry[0] if entry else UNSAFE


def is_known(name: str) -> bool:
    """Whether there is such an override."""
    return _entry(name) is not None


def _entry(name: str) -> tuple[Applicability, str] | None:
    if name in OVERRIDES or name == "torch.compile":  # an attribute of torch, and no setting
        return OVERRIDES.get(name)
    return OVERRIDES.get(name.partition(".")[0] + ".*")


# What the overrides take: a value that cannot be tried is refused before anything runs.

_COUNTS = {
    "DataLoader.num_workers": 0,
    "DataLoader.prefetch_factor": 1,
    "DataLoader.batch_size": 1,
    "torch.num_threads": 1,
}
"""Overrides that take a whole number, and the least one."""
_CHOICES = {"torch.float32_matmul_precision": ("highest", "high", "medium")}
_SWITCHES = {
    "DataLoader.pin_memory", "DataLoader.persistent_workers", "ddp.find_unused_parameters",
    "ddp.gradient_as_bucket_view", "ddp.static_graph", "optimizer.foreach", "optimizer.fused",
    "torch.backends.cudnn.benchmark",
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
