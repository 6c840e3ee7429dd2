"""The host as the job sees it: quotas, limits, memory, folders, the bus."""

import os
import platform
from collections.abc import Mapping, Sequence

from gpudoctor.lang import say
from gpudoctor.model import Absent, Reading
from gpudoctor.model.signs.host import Host
from gpudoctor.vitals.host import bus
from gpudoctor.vitals.host import limits as cpus
from gpudoctor.vitals.host.cgroup import GroupMemory, read_group
from gpudoctor.vitals.host.disks import read_disks, read_mounts, usual_folders
from gpudoctor.vitals.host.limits import container_kind, read_limits
from gpudoctor.vitals.host.memory import HostMemory, read_memory, swap_rate
from gpudoctor.vitals.host.proc_tree import Space, Tree

__all__ = ["Space", "Tree", "available_memory", "read_host"]


def read_host(
    folders: Sequence[tuple[str, str]] = (),
    *,
    variables: Mapping[str, str] | None = None,
    working_folder: str | None = None,
    tree: Tree | None = None,
) -> Host:
    """The host, from /proc and /sys where there are such, through psutil elsewhere.

    `folders` are (role, path) pairs to look at beside the usual ones. `variables` and `working_folder` are
    the job's, this process's own by default. Raises `Unavailable` when not even the memory can be told.
    """
    tree = tree or Tree()
    variables = os.environ if variables is None else variables
    working_folder = working_folder or _working_folder()
    mounts = read_mounts(tree)
    group = read_group(tree, mounts)
    memory = read_memory(tree)
    granted = group.memory(memory.total)
    limits = read_limits(tree, group.processes())
    shm = _shared_memory(tree)
    disks, silent = read_disks(tree, mounts, [*folders, *usual_folders(variables, working_folder)])
    devices, ethernet = bus.infiniband(tree)
    gpus = bus.gpu_addresses(tree)
    all_cpus = cpus.installed_cpus(tree)
    return Host(
        cpus_installed=all_cpus,
        cpus_affinity=cpus.allowed_cpus(tree, all_cpus),
        cpu_quota=group.cpu_quota(),
        memory_total=memory.total,
        memory_available=_left(memory, granted),
        memory_limit=granted.limit,
        memory_used_in_cgroup=granted.used,
        swap_total=memory.swap_total,
        swap_used=memory.swap_used,
        swap_rate=swap_rate(tree, memory.swap_used),
        shm_total=shm if isinstance(shm, Absent) else shm.total,
        shm_free=shm if isinstance(shm, Absent) else shm.free,
        open_files=limits.open_files,
        locked_memory=limits.locked_memory,
        processes=limits.processes,
        disks=disks,
        silent_folders=silent,
        infiniband=devices,
        roce=ethernet,
        iommu=bus.iommu(tree, gpus),
        acs=bus.acs(tree, gpus),
        container=container_kind(tree, variables),
        system=_system(tree),
        hostname=(tree.text("/proc/sys/kernel/hostname") or platform.node()).strip(),
    )


def available_memory(tree: Tree | None = None) -> int:
    """Bytes that a new process can have: the least of what the machine and its control groups leave.

    Raises `Unavailable` when the memory of the machine cannot be read.
    """
    tree = tree or Tree()
    memory = read_memory(tree)
    return _left(memory, read_group(tree, read_mounts(tree)).memory(memory.total))


def _left(memory: HostMemory, granted: GroupMemory) -> int:
    return memory.available if granted.room is None else min(memory.available, granted.room)


def _shared_memory(tree: Tree) -> Reading[Space]:
    if not tree.exists("/dev/shm"):
        return Absent("no /dev/shm on this system")
    try:
        space = tree.space(tree.at("/dev/shm"))
    except OSError as error:
        return Absent(say("/dev/shm cannot be read ({error})", error=error.strerror))
    return space if space.total > 0 else Absent("/dev/shm has no limit of its own")


def _working_folder() -> str:
    try:
        return os.getcwd()
    except OSError:  # deleted under our feet
        return os.path.sep


def _system(tree: Tree) -> str:
    """`Linux 5.15 x86_64`; a WSL kernel says so."""
    release = (tree.text("/proc/sys/kernel/osrelease") or platform.release()).strip()
    short = ".".join(release.split("-")[0].split(".")[:2])
    wsl = " (WSL)" if "microsoft" in release.lower() else ""
    name = platform.system() if tree.live else "Linux"
    return " ".join(part for part in (name, short, platform.machine()) if part) + wsl
