"""What the control group grants: CPU time, memory and processes (version 2, nested groups).

A group is held to its own limit and to those of every group above it, so each number here is the tightest
on the way up, as far up as this mount (or this container) can see. Kernel documentation: cgroup-v2.rst.
"""

from collections.abc import Iterator

from gpudoctor.model.records import frozen
from gpudoctor.vitals.host.disks import Mount, read_mounts
from gpudoctor.vitals.host.proc_tree import Tree, number, table


@frozen
class GroupMemory:
    """Memory by the control group; bytes."""

    limit: int | None
    """The tightest limit; None without one."""
    used: int | None
    """Charged to the group that has that limit (to the own group without one), page cache excluded."""
    room: int | None
    """The least that any of the groups still grants; None without a limit."""


@frozen
class ControlGroup:
    """The control group of the examined process, read through `tree`."""

    tree: Tree
    folders: tuple[str, ...]
    """Its folder and those of the groups above it; none without a control group."""

    def cpu_quota(self) -> float | None:
        """CPUs' worth of time per second; None without a quota."""
        return min(self._quotas(), default=None)

    def processes(self) -> int | None:
        """pids.max; None without a limit."""
        limits = (number(self.tree.text(f"{folder}/pids.max")) for folder in self.folders)  # "max" is no number
        return min((limit for limit in limits if limit is not None), default=None)

    def memory(self, installed: int) -> GroupMemory:
        """The memory limit, what is used of it and what is left; a limit over `installed` bytes is none."""
        levels = [self._memory_level(folder) for folder in self.folders]
        limited = [(limit, used) for limit, used in levels if limit is not None and limit < installed]
        if not limited:
            return GroupMemory(limit=None, used=levels[0][1] if levels else None, room=None)
        limit, used = min(limited, key=lambda level: level[0])
        room = min(max(0, top - (taken or 0)) for top, taken in limited)
        return GroupMemory(limit=limit, used=used, room=room)

    def memory_kills(self) -> int | None:
        """Processes of the own group that were killed for memory since it was made; None where not told."""
        return table(self.tree.text(f"{self.folders[0]}/memory.events")).get("oom_kill") if self.folders else None

    def _memory_level(self, folder: str) -> tuple[int | None, int | None]:
        """Limit and use of one group."""
        limit = number(self.tree.text(f"{folder}/memory.max"))
        used = number(self.tree.text(f"{folder}/memory.current"))
        if used is None:
            return limit, None
        # File cache can be had back; shared memory is counted in it and cannot.
        stat = table(self.tree.text(f"{folder}/memory.stat"))
        return limit, max(0, used - max(0, stat.get("file", 0) - stat.get("shmem", 0)))

    def _quotas(self) -> Iterator[float]:
        for folder in self.folders:
            words = (self.tree.text(f"{folder}/cpu.max") or "").split()
            quota = number(words[0]) if words else None
            period = number(words[1]) if len(words) > 1 else 100_000  # the kernel's default
            if quota is not None and period is not None and quota > 0 and period > 0:
                yield quota / period


def control_group(pid: int | None = None) -> ControlGroup:
    """The control group of a process of this machine, of the own one unless told."""
    tree = Tree(process=str(pid) if pid else "self")
    return read_group(tree, read_mounts(tree))


def read_group(tree: Tree, mounts: tuple[Mount, ...]) -> ControlGroup:
    """The control group of the examined process; without one of version 2, one that grants everything."""
    own = next((line[3:] for line in (tree.of_process("cgroup") or "").splitlines() if line.startswith("0::/")), "/")
    mount = next((mount for mount in reversed(mounts) if mount.kind == "cgroup2"), None)
    return ControlGroup(tree=tree, folders=_folders(mount, own) if mount is not None else ())


def _folders(mount: Mount, group: str) -> tuple[str, ...]:
    """The group's folder under this mount and those above it up to the mount point.

    A container without its own cgroup namespace sees the host's path in /proc/self/cgroup while its own group
    is mounted at the root: then the mount's root field is the part of the path to take off.
    """
    root = mount.root.rstrip("/")
    inside = group.startswith(root + "/") and ".." not in group.split("/")
    parts = [part for part in group[len(root) :].split("/") if part] if inside else []
    point = mount.point.rstrip("/")
    return tuple(point + "".join("/" + part for part in parts[:depth]) for depth in range(len(parts), -1, -1))
