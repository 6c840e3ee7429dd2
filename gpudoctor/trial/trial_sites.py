"""Which folders of this machine a run may write to."""

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

_LIVING = {"proc", "sys", "dev", "run", "boot", "lost+found"}
"""Folders of `/` that hold no files of anyone's."""
_INSTALLED = {"bin", "lib", "lib32", "lib64", "libx32", "sbin", "usr", "etc"}
"""Folders of `/` that are covered where we may write to them."""
_VIRTUAL = {"proc", "sysfs", "devtmpfs", "devpts", "cgroup", "cgroup2", "mqueue", "hugetlbfs", "securityfs",
            "debugfs", "tracefs", "bpf", "pstore", "fusectl", "configfs", "nsfs", "autofs", "binfmt_misc",
            "efivarfs", "rpc_pipefs", "squashfs", "ramfs"}  # fmt: skip
_MEETING = ("nvidia-mps", "nvidia-log", ".X11-unix", ".ICE-unix")
"""Folders of pipes and sockets: an overlay of one leads nowhere."""
_VALUES = 200
"""Variables that are looked at."""
_LOOKED_AT = 1000
"""Entries of a folder that are looked at for their owner."""


class CoveredPlaces:
    """What is to be covered on this machine; `command` names folders that it may write to."""

    def __init__(self, scratch: Path, command: Sequence[str] = ()) -> None:
        self.scratch = str(scratch)
        self.mounts = [path for path, kind in mounts() if kind not in _VIRTUAL and not _living(path)]
        tops = [os.path.join("/", name) for name in sorted(os.listdir("/"))]
        self.cover = [path for path in tops if self._covered(path)]
        self.through = list(_meeting_places())
        self.known = [path for path in _named(command) if not inside(path, self.scratch)]
        self.root = os.access("/", os.W_OK)
        for path in self.known:
            if path != "/" and not _system(path) and not any(inside(path, top) for top in self.cover):
                self.cover.append(path)

    def foreign(self) -> list[str]:
        """Known folders with entries of other users or groups: a user namespace cannot change those."""
        return [path for path in self.known if os.access(path, os.W_OK) and _foreign(path)]

    def _covered(self, path: str) -> bool:
        name = path[1:]
        if os.path.islink(path) or not os.path.isdir(path) or name in _LIVING:
            return False
        return name not in _INSTALLED or os.access(path, os.W_OK)


def inside(path: str, folder: str) -> bool:
    """Whether it is the folder or lies below it."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _named(command: Sequence[str]) -> list[str]:
    """The working folder, the home, and folders that the command or the environment speak of."""
    words = [word.rpartition("=")[2] for word in command]
    values = [value for value in os.environ.values() if value.startswith("/") and ":" not in value]
    found = [os.getcwd(), os.path.expanduser("~")]
    for word in (*words, *values[:_VALUES]):
        path = word if os.path.isdir(word) else os.path.dirname(word)
        if "/" in word and os.path.isdir(path) and os.access(path, os.W_OK):
            found.append(path)
    found = [os.path.realpath(path) for path in found]
    return [path for path in dict.fromkeys(found) if os.path.isdir(path)]


def _foreign(folder: str) -> bool:
    looked = 0
    for path, names, files in os.walk(folder):
        if path.count("/") > folder.count("/") + 1:
            names.clear()
        for name in (".", *names, *files):
            with suppress(OSError):
                status = os.lstat(os.path.join(path, name))
                if (status.st_uid, status.st_gid) != (os.geteuid(), os.getegid()):
                    return True
            looked += 1
        if looked > _LOOKED_AT:
            break
    return False


def _system(path: str) -> bool:
    """Whether it lies where no file of anyone's does."""
    return any(inside(path, f"/{name}") for name in ("proc", "sys"))


def _living(path: str) -> bool:
    return any(inside(path, f"/{name}") for name in _LIVING)


def mounts() -> list[tuple[str, str]]:
    """Mount points with their kinds, parents first."""
    found: dict[str, str] = {}
    with suppress(OSError), open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as stream:
        for line in stream:
            fields = line.split()
            path = fields[4]
            for code, character in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
                path = path.replace(code, character)
            found[path] = fields[fields.index("-") + 1]
    return sorted(found.items(), key=lambda item: item[0].rstrip("/").count("/"))


def _meeting_places() -> Iterator[str]:
    for name in _MEETING:
        if os.path.isdir(f"/tmp/{name}"):
            yield f"/tmp/{name}"
    pipes = os.environ.get("CUDA_MPS_PIPE_DIRECTORY")
    if pipes and os.path.isdir(pipes):
        yield os.path.realpath(pipes)
    with suppress(OSError):
        for entry in os.scandir("/tmp"):
            mode = entry.stat(follow_symlinks=False).st_mode
            if stat.S_ISSOCK(mode) or stat.S_ISFIFO(mode):
                yield entry.path
