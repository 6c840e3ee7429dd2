"""What the examined process may use: resource limits, logical CPUs; what kind of container it is in."""

import os
import re
from collections.abc import Mapping

from gpudoctor.model.records import frozen
from gpudoctor.model.signs.host import Limit
from gpudoctor.vitals.host.proc_tree import Tree, number

_UNLIMITED = Limit(soft=None, hard=None)
_COLUMNS = re.compile(r" {2,}")
_LINES = {"Max open files": "open_files", "Max locked memory": "locked_memory", "Max processes": "processes"}


@frozen
class Limits:
    """The limits that training meets."""

    open_files: Limit = _UNLIMITED
    locked_memory: Limit = _UNLIMITED
    processes: Limit = _UNLIMITED


def read_limits(tree: Tree, processes_in_group: int | None) -> Limits:
    """From /proc/PID/limits; unlimited where that does not tell."""
    found = parse_limits(tree.of_process("limits") or "")
    processes = found.get("processes", _UNLIMITED)
    return Limits(
        open_files=found.get("open_files", _UNLIMITED),
        locked_memory=found.get("locked_memory", _UNLIMITED),
        processes=Limit(
            soft=_smaller(processes.soft, processes_in_group), hard=_smaller(processes.hard, processes_in_group)
        ),
    )


def parse_limits(text: str) -> dict[str, Limit]:
    """The lines of /proc/PID/limits that matter here, by the name of the field."""
    found: dict[str, Limit] = {}
    for line in text.splitlines():
        columns = _COLUMNS.split(line.strip())
        name = _LINES.get(columns[0])
        if name is None or len(columns) < 3:
            continue
        values = [None if word == "unlimited" else number(word) for word in columns[1:3]]
        words = columns[1:3]
        if all(word == "unlimited" or value is not None for word, value in zip(words, values, strict=True)):
            found[name] = Limit(soft=values[0], hard=values[1])
    return found


def _smaller(first: int | None, second: int | None) -> int | None:
    known = [value for value in (first, second) if value is not None]
    return min(known, default=None)


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
