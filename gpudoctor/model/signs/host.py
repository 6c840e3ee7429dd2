"""The host as the job sees it: quotas and limits, not what the hardware could do."""

from gpudoctor.model.records import frozen
from gpudoctor.model.unavailable import Reading


@frozen
class Disk:
    """The file system under a folder that matters to the job."""

    role: str
    """Why it matters: `working folder`, `output`, `Hugging Face cache`, `temporary files`."""
    path: str
    mount: str
    kind: str
    """File-system type, `ext4`, `nfs4`."""
    total: int
    """Bytes."""
    free: int
    """Bytes that this user may still write."""
    read_only: bool = False


@frozen
class SilentFolder:
    """A folder whose file system gave no answer: a hung network mount, no permission."""

    role: str
    path: str
    reason: str
    """A clause: `no answer in 2 s`."""


@frozen
class Limit:
    """A resource limit; None is unlimited."""

    soft: int | None
    hard: int | None


@frozen
class Host:
    """CPUs, memory, limits and disks."""

    cpus_affinity: int
    """Logical CPUs that this process may run on (affinity and cpuset)."""
    cpu_quota: float | None
    """CPUs' worth of time per second that the cgroup grants; None without a quota."""
    memory_total: int
    memory_available: int
    """Bytes that can be had now without swapping, within the cgroup's limit too."""
    memory_limit: int | None
    """Bytes that the cgroup grants; None without a limit."""
    swap_used: int
    swap_rate: Reading[float]
    """Bytes a second swapped in and out over the reader's short look."""
    shm_total: Reading[int]
    open_files: Limit
    """RLIMIT_NOFILE."""
    locked_memory: Limit
    """RLIMIT_MEMLOCK, bytes."""
    processes: Limit
    """RLIMIT_NPROC and the cgroup's pids.max, the smaller."""
    disks: tuple[Disk, ...]
    """File systems that matter, one a role."""
    silent_folders: tuple[SilentFolder, ...] = ()
    """Folders that could not be looked at."""
    infiniband: tuple[str, ...]
    """InfiniBand or RoCE devices with a port that is up, e.g. `mlx5_0`."""
    roce: tuple[str, ...] = ()
    """Those of them whose ports are all Ethernet: many servers have such a card and never use its RDMA."""
    container: str | None
    """`docker`, `podman`, `kubernetes`, `singularity`, or None on bare metal."""
    system: str
    hostname: str
    """The node's name; stripped from shared reports."""

    @property
    def cpu_budget(self) -> float:
        """CPUs that the job can really use: the smaller of affinity and quota."""
        return min(float(self.cpus_affinity), self.cpu_quota or float("inf"))
