"""The launch of the job: its environment, what the scheduler granted, what the launch line asks for."""

from collections.abc import Mapping
from enum import Enum

from gpudoctor.model.evidence import Setting
from gpudoctor.model.records import field, fields, frozen, replace

# Environment variables of the job.


@frozen
class Environment:
    """The variables that the training process has or will have."""

    variables: Mapping[str, str]
    """Name to value. Values of secret-looking names have been replaced by the reader."""
    origin: str = "environment"
    """`environment` for this shell, `environment of pid N`, or the job script's `path:line` exports."""
    exports: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    """Variables set by a job script: name to (path, 1-based line)."""

    shadowing: tuple[tuple[str, str], ...] = ()
    """Library (`libnccl.so`) and path of what LD_PRELOAD or LD_LIBRARY_PATH puts before torch's own."""

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
    """One launch line, `torchrun --nproc_per_node=4 train.py --lr 3e-4`, and what it will start: a row of the table."""

    launcher: str
    """`python`, `torchrun`, `accelerate`, `deepspeed`, `srun`, `mpirun`."""
    script: str | None
    """The script's path as written; None for `-m`."""
    module: str | None
    arguments: tuple[str, ...]
    ranks_per_node: int | None
    """Processes that one task of the launcher starts on a node; None when the line does not say."""
    nodes: int | None
    """Nodes that it starts on; None when nobody says."""
    path: str | None = None
    line: int | None = None
    text: str = ""
    starter: str = ""
    """What starts the launcher itself, once a task: `srun`, `mpirun`, `ssh`; "" where the shell does."""
    tasks: int | None = 1
    """Tasks of the starter on a node."""
    world: int | None = None
    """World size that each process is told."""
    grants: "Grants" = field(default_factory=lambda: Grants())
    """What its processes have on a node together; of the GPUs those that they see."""
    told: Mapping[str, str] = field(default_factory=dict)
    """As written: `meets` (the rendezvous), `node_rank`, `devices`, `restarts`, and counts that a variable has."""
    variables: Mapping[str, str] = field(default_factory=dict)
    trains: bool = True
    """Whether its processes are ranks of a training, and no server beside it."""

    @property
    def here(self) -> int | None:
        """Processes on one node."""
        return self.tasks * self.ranks_per_node if self.tasks and self.ranks_per_node else None

    @property
    def cpus(self) -> float | None:
        """CPUs of one process."""
        return self.grants.cpus_granted / self.here if self.grants.cpus_granted and self.here else None


@frozen
class Grants:
    """What a scheduler or a container gives on one node, in bytes and seconds; None where nothing is said."""

    gpus_granted: int | None = None
    """`--gres`, `nvidia.com/gpu`, SLURM_GPUS_ON_NODE."""
    gpus_origin: str = ""
    ranks_per_node: int | None = None
    nodes: int | None = None
    cpus_granted: float | None = None
    cpus_per_task: int | None = None
    gpus_per_task: int | None = None
    memory_granted: int | None = None
    shared_memory_granted: int | None = None
    """Bytes of /dev/shm (`--shm-size`, a memory volume there, a container's 64 MiB)."""
    time_limit: float | None = None
    preemptible: bool | None = None
    """Whether the scheduler may stop it early (requeue, spot)."""
    lost: str = ""
    """Folders whose content ends with the job, divided by blanks."""
    shared: bool | None = None
    """Whether it is one of several that may run on a node at a time: tasks of an array on parts of nodes."""
    signal: str | None = None
    """The scheduler's warning signal (`--signal=B:USR1@120`)."""

    def over(self, other: "Grants") -> "Grants":
        """These grants, with gaps filled from others."""
        gaps = {item.name: getattr(other, item.name) for item in fields(self) if getattr(self, item.name) in (None, "")}
        return replace(self, **gaps)


@frozen
class Job(Grants):
    """What is known of the job's launch, from a job script, the scheduler's environment or flags."""

    profile: Profile
    launches: tuple[Launch, ...] = ()
    card: str | None = None
    """The card that the job is meant for, by name or bytes, when the user names one (`--gpu`): its machine need
    not be this one."""
    capability: float | None = None
    """Compute capability of that card, or of the one that the job script asks for; None where neither is known."""
    script_path: str | None = None
    script_text: str = ""
    skipped: tuple[str, ...] = ()
    ignored: tuple[tuple[int, str], ...] = ()
    """Line and text of directives that the scheduler does not read, since they stand below the first command."""
