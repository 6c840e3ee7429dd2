"""The launch of the job: its environment, what the scheduler granted, what the launch line asks for."""

from collections.abc import Mapping
from enum import Enum

from gpudoctor.model.evidence import Setting
from gpudoctor.model.records import frozen

# Environment variables of the job.


@frozen
class Environment:
    """The variables that the training process has or will have."""

    variables: Mapping[str, str]
    """Name to value. Values of secret-looking names have been replaced by the reader."""
    origin: str = "environment"
    """`environment` for this shell, `environment of pid N`, or the job script's `path:line` exports."""
    exports: Mapping[str, tuple[str, int]] = None  # type: ignore[assignment]
    """Variables set by a job script: name to (path, 1-based line)."""

    shadowing: tuple[tuple[str, str], ...] = ()
    """Library (`libnccl.so`) and path of what LD_PRELOAD or LD_LIBRARY_PATH puts before torch's own."""

    def __post_init__(self) -> None:
        """Give `exports` its empty default."""
        if self.exports is None:
            object.__setattr__(self, "exports", {})

    def get(self, name: str) -> str | None:
        """The value, or None when the variable is unset."""
        return self.variables.get(name)

    def evidence(self, name: str) -> Setting:
        """The variable as evidence."""
        path, line = self.exports.get(name, (None, None))
        return Setting(
            key=name,
            value=self.variables.get(name, ""),
            origin=self.origin if path is None else path,
            path=path,
            line=line,
            reproduce=None if path else f'echo "${name}"',
        )


class Profile(Enum):
    """The world that the job is launched in."""

    SLURM = "slurm"
    KUBERNETES = "k8s"
    TORCHRUN = "torchrun"
    NONE = "none"


@frozen
class Launch:
    """One launch line: `torchrun --nproc_per_node=4 train.py --lr 3e-4`."""

    launcher: str
    """`python`, `torchrun`, `accelerate`, `deepspeed`, `srun`, `mpirun`."""
    script: str | None
    """The script's path as written; None for `-m`."""
    module: str | None
    arguments: tuple[str, ...]
    ranks_per_node: int | None
    """Processes a node; None when the line does not say."""
    nodes: int | None
    """Nodes; None when the line does not say."""
    path: str | None = None
    line: int | None = None
    text: str = ""


@frozen
class Job:
    """What is known of the job's launch, from a job script, the scheduler's environment or flags."""

    profile: Profile
    launches: tuple[Launch, ...] = ()
    gpus_granted: int | None = None
    """GPUs that the scheduler gives this node (`--gres`, `nvidia.com/gpu`, SLURM_GPUS_ON_NODE)."""
    gpus_origin: str = ""
    card: str | None = None
    """The card that the job is meant for, by name or bytes, when the user names one (`--gpu`): its machine need
    not be this one."""
    ranks_per_node: int | None = None
    """Processes that will run here; None when unknown."""
    nodes: int | None = None
    cpus_granted: float | None = None
    """CPUs that the scheduler gives this node's tasks together."""
    cpus_per_task: int | None = None
    memory_granted: int | None = None
    """Bytes on this node."""
    shared_memory_granted: int | None = None
    """Bytes of /dev/shm that the launch asks for (`--shm-size`, a memory volume at /dev/shm); None when it
    does not say."""
    time_limit: float | None = None
    """Seconds; None without a limit or unknown."""
    preemptible: bool | None = None
    """Whether the scheduler may stop it early (requeue, spot)."""
    signal: str | None = None
    """The scheduler's warning signal (`--signal=B:USR1@120`)."""
    script_path: str | None = None
    script_text: str = ""
