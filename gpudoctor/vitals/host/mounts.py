"""Mounted file systems, from mountinfo where there is one and through psutil elsewhere."""

import os
import re
from dataclasses import dataclass

from gpudoctor.vitals.host.proc_tree import Tree

_ESCAPE = re.compile(r"\\([0-7]{3})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """One mounted file system."""

    point: str
    """Where it is mounted."""
    root: str
    """The folder of the file system that is mounted there: a container's own cgroup, a bind mount's source."""
    kind: str
    """File-system type."""
    options: frozenset[str]
    """Options of the mount and of its file system."""

    @property
    def read_only(self) -> bool:
        """Whether nothing can be written."""
        return "ro" in self.options


def parse_mountinfo(text: str) -> tuple[Mount, ...]:
    """Mounts in order; lines that are not mountinfo are left out (proc_pid_mountinfo(5))."""
    mounts = []
    for line in text.splitlines():
        left, dash, right = line.partition(" - ")
        head, tail = left.split(), right.split()
        if not dash or len(head) < 6 or not tail:
            continue
        extra = tail[2] if len(tail) > 2 else ""
        mounts.append(
            Mount(
                point=_plain(head[4]),
                root=_plain(head[3]),
                kind=tail[0],
                options=frozenset(head[5].split(",") + extra.split(",")),
            )
        )
    return tuple(mounts)


def read_mounts(tree: Tree) -> tuple[Mount, ...]:
    """The mounts that the examined process sees; empty when nobody tells."""
    text = tree.of_process("mountinfo")
    if text is not None:
        return parse_mountinfo(text)
    return _portable() if tree.live else ()


def mount_of(path: str, mounts: tuple[Mount, ...]) -> Mount | None:
    """The mount that holds a path: the longest mount point above it, the last one where several share it."""
    best: Mount | None = None
    for mount in mounts:
        point = mount.point.rstrip("/\\")
        inside = path == mount.point or path == point or path.startswith((point + "/", point + os.sep))
        if inside and (best is None or len(mount.point) >= len(best.point)):
            best = mount
    return best


def _plain(field: str) -> str:
    return _ESCAPE.sub(lambda match: chr(int(match.group(1), 8)), field)


def _portable() -> tuple[Mount, ...]:
    import psutil

    try:
        partitions = psutil.disk_partitions(all=True)
    except (OSError, psutil.Error):
        return ()
    return tuple(
        Mount(
            point=item.mountpoint,
            root="/",
            kind=item.fstype or "unknown",
            options=frozenset(item.opts.split(",")),
        )
        for item in partitions
    )
