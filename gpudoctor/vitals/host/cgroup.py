"""What the control group grants: CPU time, memory and processes, versions 1 and 2, nested groups.

A group is held to its own limit and to those of every group above it, so each number here is the tightest
on the way up, as far up as this mount (or this container) can see. Kernel documentation: cgroup-v2.rst,
cgroup-v1/memory.rst, scheduler/sched-bwc.rst.
"""

from collections.abc import Iterator

from gpudoctor.model.records import frozen
from gpudoctor.vitals.host.disks import Mount, read_mounts
from gpudoctor.vitals.host.proc_tree import Tree, number, table

_NO_LIMIT = 1 << 60
"""Version 1 writes LONG_MAX rounded down to a page for "no limit"; nothing real comes near."""


@frozen
class Groups:
    """The folders of one controller's groups, own group first, the topmost visible last."""

    version: int
    folders: tuple[str, ...]


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
    mounts: tuple[Mount, ...]
    membership: tuple[tuple[str, str], ...]
    """Controller (`""` for version 2) to the group's path."""

    def cpu_quota(self) -> float | None:
        """CPUs' worth of time per second; None without a quota."""
        groups = self._groups("cpu")
        return min(self._quotas(groups), default=None) if groups else None

    def processes(self) -> int | None:
        """pids.max; None without a limit."""
        groups = self._groups("pids")
        if groups is None:
            return None
        limits = (_limit(self.tree.text(f"{folder}/pids.max")) for folder in groups.folders)
        return min((limit for limit in limits if limit is not None), default=None)

    def memory(self, installed: int) -> GroupMemory:
        """The memory limit, what is used of it and what is left; a limit over `installed` bytes is none."""
        groups = self._groups("memory")
        if groups is None:
            return GroupMemory(limit=None, used=None, room=None)
        levels = [self._memory_level(folder, groups.version) for folder in groups.folders]
        limited = [(limit, used) for limit, used in levels if limit is not None and limit < installed]
        if not limited:
            return GroupMemory(limit=None, used=levels[0][1] if levels else None, room=None)
        limit, used = min(limited, key=lambda level: level[0])
        room = min(max(0, top - (taken or 0)) for top, taken in limited)
        return GroupMemory(limit=limit, used=used, room=room)

    def memory_kills(self) -> int | None:
        """Processes of the own group that were killed for memory since it was made; None where not told."""
        groups = self._groups("memory")
        if groups is None:
            return None
        name = "memory.events" if groups.version == 2 else "memory.oom_control"
        return table(self.tree.text(f"{groups.folders[0]}/{name}")).get("oom_kill")

    def _memory_level(self, folder: str, version: int) -> tuple[int | None, int | None]:
        """Limit and use of one group."""
        names = ("memory.max", "memory.current") if version == 2 else (
            "memory.limit_in_bytes", "memory.usage_in_bytes"
        )  # fmt: skip
        limit = _limit(self.tree.text(f"{folder}/{names[0]}"))
        used = number(self.tree.text(f"{folder}/{names[1]}"))
        stat = table(self.tree.text(f"{folder}/memory.stat"))
        if version == 1 and 0 < stat.get("hierarchical_memory_limit", _NO_LIMIT) < _NO_LIMIT:
            # Counts groups above the container's mount, which cannot be seen from inside.
            above = stat["hierarchical_memory_limit"]
            limit = above if limit is None else min(limit, above)
        if used is None:
            return limit, None
        # File cache can be had back; shared memory is counted in it and cannot.
        if version == 2:
            cache, shared = stat.get("file", 0), stat.get("shmem", 0)
        else:
            cache = stat.get("total_cache", stat.get("cache", 0))
            shared = stat.get("total_shmem", stat.get("shmem", 0))
        return limit, max(0, used - max(0, cache - shared))

    def _quotas(self, groups: Groups) -> Iterator[float]:
        for folder in groups.folders:
            if groups.version == 2:
                words = (self.tree.text(f"{folder}/cpu.max") or "").split()
                quota = number(words[0]) if words else None
                period = number(words[1]) if len(words) > 1 else 100_000  # the kernel's default
            else:
                quota = number(self.tree.text(f"{folder}/cpu.cfs_quota_us"))
                period = number(self.tree.text(f"{folder}/cpu.cfs_period_us"))
            if quota is not None and period is not None and quota > 0 and period > 0:
                yield quota / period

    def _groups(self, controller: str) -> Groups | None:
        """Where a controller's files are: in its version-1 hierarchy if mounted, else in version 2's."""
        paths = dict(self.membership)
        for mount in reversed(self.mounts):
            if mount.kind == "cgroup" and controller in mount.options:
                return Groups(version=1, folders=_folders(mount, paths.get(controller, "/")))
        for mount in reversed(self.mounts):
            if mount.kind == "cgroup2":
                return Groups(version=2, folders=_folders(mount, paths.get("", "/")))
        return None


def control_group(pid: int | None = None) -> ControlGroup:
    """The control group of a process of this machine, of the own one unless told."""
    tree = Tree(process=str(pid) if pid else "self")
    return read_group(tree, read_mounts(tree))


def read_group(tree: Tree, mounts: tuple[Mount, ...]) -> ControlGroup:
    """The control group of the examined process; without /proc one that grants everything."""
    return ControlGroup(tree=tree, mounts=mounts, membership=parse_membership(tree.of_process("cgroup") or ""))


def parse_membership(text: str) -> tuple[tuple[str, str], ...]:
    """/proc/PID/cgroup as controller to path; the version-2 line has the controller `""`."""
    found = []
    for line in text.splitlines():
        fields = line.split(":", 2)
        if len(fields) == 3 and fields[2].startswith("/"):
            found += [(controller, fields[2]) for controller in fields[1].split(",")]
    return tuple(found)


def _folders(mount: Mount, group: str) -> tuple[str, ...]:
    """The group's folder under this mount and those above it up to the mount point.

    A container without its own cgroup namespace sees the host's path in /proc/self/cgroup while its own group
    is mounted at the root: then the mount's root field is the part of the path to take off.
    """
    root = mount.root.rstrip("/")
    if group == root or not group.startswith(root + "/") or ".." in group.split("/"):
        parts: list[str] = []
    else:
        parts = [part for part in group[len(root) :].split("/") if part]
    point = mount.point.rstrip("/")
    return tuple(point + "".join("/" + part for part in parts[:depth]) for depth in range(len(parts), -1, -1))


def _limit(text: str | None) -> int | None:
    value = number(text)  # "max" is no number
    return value if value is not None and 0 <= value < _NO_LIMIT else None
