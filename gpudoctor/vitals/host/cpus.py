"""Logical CPUs: how many there are and how many the examined process may use."""

import os

from gpudoctor.vitals.host.proc_tree import Tree, number


def installed(tree: Tree) -> int:
    """Logical CPUs that are switched on; at least 1."""
    listed = count_list(tree.text("/sys/devices/system/cpu/online"))
    return listed or os.cpu_count() or 1


def allowed(tree: Tree, all_cpus: int) -> int:
    """Logical CPUs that affinity and cpuset leave to the process; at least 1, at most `all_cpus`."""
    for line in (tree.of_process("status") or "").splitlines():
        name, _, value = line.partition(":")
        if name == "Cpus_allowed_list":
            counted = count_list(value)
            if counted:  # the mask may name CPUs that are not there
                return min(counted, all_cpus)
    return min(_own(), all_cpus) if tree.live else all_cpus


def count_list(text: str | None) -> int | None:
    """How many a kernel list names: `0-3,8` is 5; None for anything else."""
    total = 0
    for part in (text or "").strip().split(","):
        first, dash, last = part.partition("-")
        low, high = number(first), number(last) if dash else number(first)
        if low is None or high is None or not 0 <= low <= high < 1 << 20:
            return None
        total += high - low + 1
    return total


def _own() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0)) or 1
    import psutil

    process = psutil.Process()
    if hasattr(process, "cpu_affinity"):  # Windows and FreeBSD; macOS has none
        try:
            return len(process.cpu_affinity() or ()) or os.cpu_count() or 1
        except (OSError, psutil.Error):
            pass
    return os.cpu_count() or 1
