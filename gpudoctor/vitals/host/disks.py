"""Mounted file systems, and room and kind of the disks under the folders of a job."""

import os
import re
import threading
import time
from collections.abc import Mapping, Sequence

from gpudoctor.lang import say
from gpudoctor.model.records import frozen
from gpudoctor.model.signs.host import Disk, SilentFolder
from gpudoctor.text import duration
from gpudoctor.vitals.host.proc_tree import Tree

_ESCAPE = re.compile(r"\\([0-7]{3})")


@frozen
class Mount:
    """One mounted file system."""

    point: str
    root: str
    """The folder of the file system that is mounted there: a container's own cgroup, a bind mount's source."""
    kind: str
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
    return parse_mountinfo(tree.of_process("mountinfo") or "")


def mount_of(path: str, mounts: tuple[Mount, ...]) -> Mount | None:
    """The mount that holds a path: the longest mount point above it, the last one where several share it."""
    best: Mount | None = None
    for mount in mounts:
        point = mount.point.rstrip("/")
        inside = path == point or path.startswith(point + "/")
        if inside and (best is None or len(mount.point) >= len(best.point)):
            best = mount
    return best


def _plain(field: str) -> str:
    return _ESCAPE.sub(lambda match: chr(int(match.group(1), 8)), field)


PATIENCE = 2.0
"""Seconds that the folders have, all together: they are asked side by side."""


def usual_folders(variables: Mapping[str, str], working_folder: str) -> list[tuple[str, str]]:
    """Role and path of the folders that every training touches."""
    home = variables.get("HOME") or os.path.expanduser("~")
    cache = variables.get("XDG_CACHE_HOME") or os.path.join(home, ".cache")
    hub = variables.get("HF_HOME") or os.path.join(cache, "huggingface")
    hub = variables.get("HF_HUB_CACHE") or variables.get("HUGGINGFACE_HUB_CACHE") or hub
    temporary = next((variables[name] for name in ("TMPDIR", "TEMP", "TMP") if variables.get(name)), "/tmp")
    extensions = variables.get("TORCH_EXTENSIONS_DIR") or os.path.join(cache, "torch_extensions")
    folders = [
        (say("working folder"), working_folder),
        (say("Hugging Face cache"), hub),
        (say("temporary files"), temporary),
        (say("torch extension cache"), extensions),
    ]
    if variables.get("HF_DATASETS_CACHE"):
        folders.insert(2, (say("Hugging Face data sets"), variables["HF_DATASETS_CACHE"]))
    return [(role, os.path.join(working_folder, os.path.expanduser(path))) for role, path in folders]


def read_disks(
    tree: Tree, mounts: tuple[Mount, ...], folders: Sequence[tuple[str, str]]
) -> tuple[tuple[Disk, ...], tuple[SilentFolder, ...]]:
    """The file system under each folder, and the folders that gave no answer in time."""
    wanted = list(dict.fromkeys(folders))
    found: dict[tuple[str, str], Disk | SilentFolder] = {}

    def ask(role: str, path: str) -> None:
        try:
            found[role, path] = _disk(tree, mounts, role, path)
        except (OSError, ValueError) as error:
            reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
            found[role, path] = SilentFolder(role=role, path=path, reason=reason)

    # Threads, not child processes: a wait for NFS is killable, so a stuck thread ends with the process.
    threads = [threading.Thread(target=ask, args=item, daemon=True) for item in wanted]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + PATIENCE
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    late = say("no answer in {patience}", patience=duration(PATIENCE))
    answers = [found.get(item) or SilentFolder(role=item[0], path=item[1], reason=late) for item in wanted]
    return (
        tuple(item for item in answers if isinstance(item, Disk)),
        tuple(item for item in answers if isinstance(item, SilentFolder)),
    )


def _disk(tree: Tree, mounts: tuple[Mount, ...], role: str, path: str) -> Disk:
    absolute = os.path.abspath(path)
    existing = absolute
    while not os.path.exists(tree.at(existing)):
        parent = os.path.dirname(existing)
        if parent == existing:
            break
        existing = parent
    space = tree.space(tree.at(existing))
    mount = mount_of(os.path.realpath(existing) if tree.live else existing, mounts)
    return Disk(
        role=role,
        path=absolute,
        mount=mount.point if mount else "/",
        kind=mount.kind if mount else "unknown",
        total=space.total,
        free=space.free,
        read_only=mount.read_only if mount else False,
    )
