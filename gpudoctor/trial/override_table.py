"""The overrides by name: what each does, which values it takes, and whether the numbers stay the same."""

from typing import NamedTuple

from gpudoctor.lang import say
from gpudoctor.model import Applicability

SAFE, UNSAFE = Applicability.SAFE, Applicability.UNSAFE


class RunTimeSetting(NamedTuple):
    """One setting that a trial changes at run time."""

    safety: Applicability
    """Whether results stay the same."""
    what: str


OVERRIDES = {
    "DataLoader.num_workers": RunTimeSetting(SAFE, say("worker processes of every map-style loader")),
    "DataLoader.pin_memory": RunTimeSetting(SAFE, say("batches in pinned memory")),
    "DataLoader.persistent_workers": RunTimeSetting(SAFE, say("workers that live longer than an epoch")),
    "DataLoader.prefetch_factor": RunTimeSetting(SAFE, say("batches that each worker prepares ahead")),
    "DataLoader.batch_size": RunTimeSetting(UNSAFE, say("samples a batch")),
    "TrainingArguments.eval_steps": RunTimeSetting(SAFE, say("steps between two evaluations (transformers)")),
    "TrainingArguments.logging_steps": RunTimeSetting(SAFE, say("steps between two logs (transformers)")),
    "TrainingArguments.save_steps": RunTimeSetting(SAFE, say("steps between two checkpoints (transformers)")),
    "TrainingArguments.*": RunTimeSetting(UNSAFE, say("a field of transformers' TrainingArguments")),
    "env.*": RunTimeSetting(UNSAFE, say("an environment variable")),
    "env.OMP_NUM_THREADS": RunTimeSetting(SAFE, say("threads of one process")),
    "env.PYTORCH_CUDA_ALLOC_CONF": RunTimeSetting(SAFE, say("settings of the CUDA allocator")),
    "torch.*": RunTimeSetting(UNSAFE, say("any attribute of torch: torch.backends.cudnn.benchmark")),
    "torch.backends.cudnn.benchmark": RunTimeSetting(SAFE, say("cuDNN's search for the fastest kernel")),
    "torch.float32_matmul_precision": RunTimeSetting(UNSAFE, say("high: TF32 in matrix products")),
    "torch.num_threads": RunTimeSetting(SAFE, say("threads inside an operation")),
}
"""By name; `topic.*` takes any detail."""


def is_known(name: str) -> bool:
    """Whether there is such an override."""
    return name in OVERRIDES or (name.partition(".")[0] + ".*" in OVERRIDES and name != "torch.compile")
