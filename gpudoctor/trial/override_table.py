"""The settings that a trial changes at run time, by name, and whether the numbers stay the same."""

from gpudoctor.model import Applicability

_SAME_NUMBERS = (
    "DataLoader.num_workers", "DataLoader.pin_memory", "DataLoader.persistent_workers", "DataLoader.prefetch_factor",
    "TrainingArguments.eval_steps", "TrainingArguments.logging_steps", "TrainingArguments.save_steps",
    "env.OMP_NUM_THREADS", "env.PYTORCH_CUDA_ALLOC_CONF", "torch.backends.cudnn.benchmark", "torch.num_threads",
)  # fmt: skip
_OTHERS = ("DataLoader.batch_size", "TrainingArguments.*", "env.*", "torch.*", "torch.float32_matmul_precision")
OVERRIDES = {**dict.fromkeys(_SAME_NUMBERS, Applicability.SAFE), **dict.fromkeys(_OTHERS, Applicability.UNSAFE)}
"""By name; `topic.*` takes any detail."""


def is_known(name: str) -> bool:
    """Whether there is such an override."""
    return name in OVERRIDES or (name.partition(".")[0] + ".*" in OVERRIDES and name != "torch.compile")
