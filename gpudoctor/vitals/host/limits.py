"""What the examined process may use: resource limits, logical CPUs; what kind of container it is in."""

import os
import re
from collections.abc import Mapping

from gpudoctor.model.signs.host import Limit
from gpudoctor.vitals.host.proc_tree import Tree, number

_UNLIMITED = Limit(soft=None, hard=None)
_COLUMNS = re.compile(r" {2,}")
_LINES = {"Max open files": "open_files", "Max locked memory": "locked_memory", "Max processes": "processes"}


def read_limits(tree: Tree, processes_in_group: int | None) -> dict[str, Limit]:
    """The lines of /proc/PID/limits that matter here, by the field of `Host`; unlimited where it does not tell."""
    found = dict.fromkeys(_LINES.values(), _UNLIMITED)
    for line in (tree.of_process("limits") or "").splitlines():
        columns = _COLUMNS.split(line.strip())
        name, words = _LINES.get(columns[0]), columns[1:3]
        values = [number(word) for word in words]
        told = all(word == "unlimited" or value is not None for word, value in zip(words, values, strict=True))
        if name is not None and len(words) == 2 and told:
            found[name] = Limit(soft=values[0], hard=values[1])
    own = found["processes"]
    each = ([value for value in (side, processes_in_group) if value is not None] for side in (own.soft, own.hard))
    soft, hard = (min(known, default=None) for known in each)
    return found | {"processes": Limit(soft=soft, hard=hard)}


# Logical CPUs: how many there are and how many the examined process may use.


def allowed_cpus(tree: Tree) -> int:
    """Logical CPUs that affinity and cpuset leave to the process; at least 1, at most all that are switched on."""
    all_cpus = count_list(tree.text("/sys/devices/system/cpu/online")) or os.cpu_count() or 1
    for line in (tree.of_process("status") or "").splitlines():
        name, _, value = line.partition(":")
        if name == "Cpus_allowed_list":
            counted = count_list(value)
            if counted:  # the mask may name CPUs that are not there
                return min(counted, all_cpus)
    return all_cpus


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


# What kind of container the examined process is in.


def container_kind(tree: Tree, variables: Mapping[str, str]) -> str | None:
    """`kubernetes`, `singularity`, `podman`, `docker`, or None on bare metal."""
    group = tree.of_process("cgroup") or ""
    if "KUBERNETES_SERVICE_HOST" in variables or "kubepods" in group:
        return "kubernetes"
    if {"SINGULARITY_CONTAINER", "APPTAINER_CONTAINER"} & variables.keys():
        return "singularity"
    if tree.exists("/run/.containerenv"):
        return "podman"
    return "docker" if tree.exists("/.dockerenv") or "/docker" in group else None
