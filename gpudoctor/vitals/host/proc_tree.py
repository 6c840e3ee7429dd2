"""The /proc and /sys that the readers look at: the machine's own, or a recorded tree in a test."""

import os
import shutil
from collections.abc import Callable

from gpudoctor.model.records import frozen

_LARGEST_FILE = 1 << 20
"""Bytes. No file read here is that long; a recorded tree may hold anything."""


@frozen
class Space:
    """Room in a file system, bytes."""

    total: int
    free: int


def measure(path: str) -> Space:
    """Room in the file system that holds a path; raises `OSError`."""
    usage = shutil.disk_usage(path)
    return Space(total=usage.total, free=usage.free)


@frozen
class Tree:
    """A file-system root and the process in it that is examined."""

    root: str = "/"
    process: str = "self"
    """The folder of /proc to read: `self` or a pid."""
    space: Callable[[str], Space] = measure
    """How room is measured; a recorded tree brings its own."""

    @property
    def live(self) -> bool:
        """Whether this is the machine itself, so that calls of this process mean the same."""
        return self.root == "/"

    def at(self, path: str) -> str:
        """The real path of an absolute path in this tree."""
        return path if self.live else os.path.join(self.root, path.lstrip("/"))

    def text(self, path: str) -> str | None:
        """A file's text, or None when it cannot be read."""
        data = self.data(path)
        return None if data is None else data.decode(errors="replace")

    def data(self, path: str) -> bytes | None:
        """A file's bytes, or None when it cannot be read."""
        try:
            with open(self.at(path), "rb") as file:
                return file.read(_LARGEST_FILE)
        except (OSError, ValueError):  # ValueError: a path with a NUL, from a rubbish tree
            return None

    def of_process(self, name: str) -> str | None:
        """A file of the examined process: `limits`, `cgroup`."""
        return self.text(f"/proc/{self.process}/{name}")

    def names(self, path: str) -> tuple[str, ...]:
        """Names in a folder, sorted; empty when it cannot be listed."""
        try:
            return tuple(sorted(os.listdir(self.at(path))))
        except (OSError, ValueError):
            return ()

    def link(self, path: str) -> str:
        """Where a symbolic link points; "" for what is none."""
        try:
            return os.readlink(self.at(path))
        except (OSError, ValueError):
            return ""

    def exists(self, path: str) -> bool:
        """Whether something is there."""
        try:
            return os.path.lexists(self.at(path))
        except ValueError:
            return False


def number(text: str | None) -> int | None:
    """A whole number that stands alone in a file, or None for anything else."""
    if text is None:
        return None
    stripped = text.strip()
    # int() would take "1_000", unicode digits and 4,300-digit lines.
    if not stripped.isascii() or not stripped.lstrip("-").isdigit() or len(stripped) > 20:
        return None
    try:
        return int(stripped)
    except ValueError:  # "--5"
        return None


def table(text: str | None) -> dict[str, int]:
    """Lines `name value` (memory.stat, vmstat) and `Name:  value kB` (meminfo), in the file's own unit."""
    found: dict[str, int] = {}
    for line in (text or "").splitlines():
        words = line.replace(":", " ", 1).split()
        value = number(words[1]) if len(words) >= 2 else None
        if value is not None:
            found[words[0]] = value
    return found
