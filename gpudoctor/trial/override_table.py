"""The overrides by name: what each does, which values it takes, and whether the numbers stay the same."""

from typing import NamedTuple

from gpudoctor.lang import say
from gpudoctor.model import Applicability

SAFE, UNSAFE = Applicability.SAFE, Applicability.UNSAFE
_TRUE, _FALSE = ("true", "1", "on", "yes"), ("false", "0", "off", "no")


class RunTimeSetting(NamedTuple):
    """One setting that a trial changes at run time."""

    safety: Applicability
    """Whether results stay the same."""
    what: str
    least: int | None = None
    """The least value of one that takes a whole number."""
    choices: tuple[str, ...] = ()
    """The values of one that takes no other."""


OVERRIDES = {
    "DataLoader.num_workers": RunTimeSetting(SAFE, say("worker processes of every map-style loader"), least=0),
    "DataLoader.pin_memory": RunTimeSetting(SAFE, say("batches in pinned memory"), choices=_TRUE + _FALSE),
    "DataLoader.persistent_workers": RunTimeSetting(
        SAFE, say("workers that live longer than an epoch"), choices=_TRUE + _FALSE
    ),
    "DataLoader.prefetch_factor": RunTimeSetting(SAFE, say("batches that each worker prepares ahead"), least=1),
    "DataLoader.batch_size": RunTimeSetting(UNSAFE, say("samples a batch"), least=1),
    "TrainingArguments.eval_steps": RunTimeSetting(SAFE, say("steps between two evaluations (transformers)")),
    "TrainingArguments.logging_steps": RunTimeSetting(SAFE, say("steps between two logs (transformers)")),
    "TrainingArguments.save_steps": RunTimeSetting(SAFE, say("steps between two checkpoints (transformers)")),
    "TrainingArguments.*": RunTimeSetting(UNSAFE, say("a field of transformers' TrainingArguments")),
    "env.*": RunTimeSetting(UNSAFE, say("an environment variable")),
    "env.OMP_NUM_THREADS": RunTimeSetting(SAFE, say("threads of one process")),
    "env.PYTORCH_CUDA_ALLOC_CONF": RunTimeSetting(SAFE, say("settings of the CUDA allocator")),
    "torch.*": RunTimeSetting(UNSAFE, say("any attribute of torch: torch.backends.cudnn.benchmark")),
    "torch.backends.cudnn.benchmark": RunTimeSetting(
        SAFE, say("cuDNN's search for the fastest kernel"), choices=_TRUE + _FALSE
    ),
    "torch.float32_matmul_precision": RunTimeSetting(
        UNSAFE, say("high: TF32 in matrix products"), choices=("highest", "high", "medium")
    ),
    "torch.num_threads": RunTimeSetting(SAFE, say("threads inside an operation"), least=1),
}
"""By name; `topic.*` takes any detail."""


def is_known(name: str) -> bool:
    """Whether there is such an override."""
    return name in OVERRIDES or (name.partition(".")[0] + ".*" in OVERRIDES and name != "torch.compile")


def value_of(name: str, text: str) -> str:
    """A value as its override takes it. Raises `ValueError` with what it takes instead."""
    known, low = OVERRIDES.get(name), text.strip().lower()
    if known is None:
        return text
    if known.least is not None and not (low.isascii() and low.isdigit() and int(low) >= known.least):
        raise ValueError(
            say("{name} takes a whole number from {counts} on, not {text!r}", name=name, counts=known.least, text=text)
        )
    if known.choices and low not in known.choices:
        if known.choices == _TRUE + _FALSE:
            raise ValueError(say("{name} takes true or false, not {text!r}", name=name, text=text))
        choices = ", ".join(known.choices)
        raise ValueError(say("{name} takes {choices}, not {text!r}", name=name, choices=choices, text=text))
    if known.choices == _TRUE + _FALSE:
        return str(low in _TRUE)
    return low if known.choices or known.least is not None else text
