"""What the program of a synthetic job is written from."""

from dataclasses import dataclass
from typing import Any

from gpudoctor.estimate.job import TrainingJob


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramSpec:
    """What a program is written from."""

    title: str
    """The job in a line."""
    origin: str
    """The command that asked for it."""
    release: str
    """Ours."""
    job: TrainingJob
    """The job; `gpus` x `nodes` ranks of it."""
    kind: str
    """`cuda` or `cpu`."""
    facts: dict[str, Any]
    """What `facts.find` says of the model."""
    deepspeed: bool = False
    """Whether DeepSpeed's engine trains, by the config that `--deepspeed` names."""
    own_optimizer: bool = True
    """Whether the program makes the optimizer; False where DeepSpeed's config names one."""

    @property
    def several(self) -> bool:
        """Whether there are several ranks."""
        return self.job.world > 1
