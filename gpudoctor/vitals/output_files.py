"""The regular files that a command prints to: they can still be read after its death."""

import os
import stat
import time
from collections.abc import Mapping
from contextlib import suppress

from gpudoctor.model.records import field, frozen

_STREAMS = (1, 2)
_MOST_BYTES = 256 << 20
"""Bytes at the end of a file that are read: a report has a minute, and a death is at the end."""


@frozen
class OutputFiles:
    """Where a command's output goes, as it was before the command began."""

    starts: Mapping[str, int] = field(default_factory=dict)
    """The files of the standard output and error, with the byte at which the next words go."""
    began: float = 0.0
    """Seconds since the epoch."""
    keeps_errors: bool = False
    """Whether the standard error goes to a file."""

    def written(self) -> dict[str, int]:
        """The files that the command has written to, each with its first byte that counts."""
        found: dict[str, int] = {}
        for path, start in self.starts.items():
            with suppress(OSError):
                size = os.stat(path).st_size
                if size > start:
                    found[path] = max(start, size - _MOST_BYTES)
        return found


def own_output() -> OutputFiles:
    """The files that this process and its children print to; none where the system does not name them."""
    starts: dict[str, int] = {}
    keeps_errors = False
    for stream in _STREAMS:
        with suppress(OSError):
            link = f"/proc/self/fd/{stream}"
            path, opened = os.readlink(link), os.stat(link)
            # A file that was deleted or replaced meanwhile has another one, or none, at its path.
            if stat.S_ISREG(opened.st_mode) and os.path.samestat(opened, os.stat(path)):
                starts.setdefault(path, _position(stream, opened.st_size))
                keeps_errors = stream == _STREAMS[-1]
    return OutputFiles(starts=starts, began=time.time(), keeps_errors=keeps_errors)


def _position(stream: int, size: int) -> int:
    """The byte at which the next words go: the end of a file that is appended to (`>>`)."""
    import fcntl

    if fcntl.fcntl(stream, fcntl.F_GETFL) & os.O_APPEND:
        return size
    return min(os.lseek(stream, 0, os.SEEK_CUR), size)
