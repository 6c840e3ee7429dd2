"""The host as the job sees it: quotas, limits, memory, folders, the bus."""

import os
import platform
import time
from collections.abc import Mapping, Sequence

from gpudoctor.lang import say
from gpudoctor.model import Absent, Reading, Unavailable
from gpudoctor.model.records import frozen
from gpudoctor.model.signs.host import Host
from gpudoctor.vitals.host import bus
from gpudoctor.vitals.host import limits as cpus
from gpudoctor.vitals.host.cgroup import GroupMemory, read_group
from gpudoctor.vitals.host.disks import read_disks, read_mounts, usual_folders
from gpudoctor.vitals.host.limits import container_kind, read_limits
from gpudoctor.vitals.host.proc_tree import Space, Tree, table

__all__ = ["Space", "Tree", "available_memory", "read_host"]

_LOOK = 0.05
"""Seconds between two looks at the swap counters: what a check of the machine can afford."""


@frozen
class HostMemory:
    """Bytes of the machine."""

    total: int
    available: int
    swap_used: int


def read_memory(tree: Tree) -> HostMemory:
    """From /proc/meminfo; raises `Unavailable` where it does not tell."""
    lines = table(tree.text("/proc/meminfo"))
    if {"MemTotal", "MemAvailable"} <= lines.keys() and lines["MemTotal"] > 0:
        kib = 1024
        swap = max(0, lines.get("SwapTotal", 0))
        return HostMemory(
            total=lines["MemTotal"] * kib,
            available=max(0, min(lines["MemAvailable"], lines["MemTotal"])) * kib,
            swap_used=max(0, swap - max(0, lines.get("SwapFree", swap))) * kib,
        )
    raise Unavailable("/proc/meminfo does not report the memory")


def swap_rate(tree: Tree, used: int) -> Reading[float]:
    """Bytes a second swapped in and out over a short look; 0 without looking when no swap is used."""
    if used <= 0:
        return 0.0
    start = time.perf_counter()
    before = _swapped(tree)
    time.sleep(_LOOK)
    after = _swapped(tree)
    if before is None or after is None:
        return Absent("no swap counters on this system")
    return max(0, after - before) / (time.perf_counter() - start)


def _swapped(tree: Tree) -> int | None:
    counters = table(tree.text("/proc/vmstat"))
    if not {"pswpin", "pswpout"} <= counters.keys():
        return None
    return (counters["pswpin"] + counters["pswpout"]) * os.sysconf("SC_PAGE_SIZE")


def read_host(
    folders: Sequence[tuple[str, str]] = (),
    *,
    variables: Mapping[str, str] | None = None,
    working_folder: str | None = None,
    tree: Tree | None = None,
) -> Host:
    """The host, from /proc and /sys.

    `folders` are (role, path) pairs to look at beside the usual ones. `variables` and `working_folder` are
    the job's, this process's own by default. Raises `Unavailable` when not even the memory can be told.
    """
    tree = tree or Tree()
    variables = os.environ if variables is None else variables
    if not working_folder:
        try:
            working_folder = os.getcwd()
        except OSError:  # deleted under our feet
            working_folder = os.path.sep
    mounts = read_mounts(tree)
    group = read_group(tree, mounts)
    memory = read_memory(tree)
    granted = group.memory(memory.total)
    disks, silent = read_disks(tree, mounts, [*folders, *usual_folders(variables, working_folder)])
    devices, ethernet = bus.infiniband(tree)
    release = (tree.text("/proc/sys/kernel/osrelease") or "").strip()
    short, wsl = ".".join(release.split("-")[0].split(".")[:2]), " (WSL)" if "microsoft" in release.lower() else ""
    return Host(
        cpus_affinity=cpus.allowed_cpus(tree),
        cpu_quota=group.cpu_quota(),
        memory_total=memory.total,
        memory_available=_left(memory, granted),
        memory_limit=granted.limit,
        swap_used=memory.swap_used,
        swap_rate=swap_rate(tree, memory.swap_used),
        shm_total=_shared_memory(tree),
        **read_limits(tree, group.processes()),
        disks=disks,
        silent_folders=silent,
        infiniband=devices,
        roce=ethernet,
        container=container_kind(tree, variables),
        system=f"Linux {short} {platform.machine()}{wsl}",
        hostname=(tree.text("/proc/sys/kernel/hostname") or "").strip(),
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


def _shared_memory(tree: Tree) -> Reading[int]:
    if not tree.exists("/dev/shm"):
        return Absent("no /dev/shm on this system")
    try:
        total = tree.space(tree.at("/dev/shm")).total
    except OSError as error:
        return Absent(say("/dev/shm cannot be read ({error})", error=error.strerror))
    return total if total > 0 else Absent("/dev/shm has no limit of its own")
