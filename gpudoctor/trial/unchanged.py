"""The user's folders before and after the trials: what changed meanwhile, whoever changed it.

Of every file: mode, size, inode, times; of small ones the content too. The kernel sets the time of the last
change (ctime) itself, so a program that writes and puts the old time back is seen. Where a folder is too large
the comparison says how much of it was compared.
"""

import hashlib
import os
import stat
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

from gpudoctor.lang import say
from gpudoctor.trial.scratch import inside

FILES, SECONDS = 50_000, 3.0
"""The most files that are compared, and seconds that a walk over them may take."""
_SMALL, _BYTES = 1 << 20, 64 << 20
"""Bytes of a file whose content is read, and of all of them together."""
_SHOWN = 5

Signature = tuple[object, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SecondLook:
    """What a second look has shown."""

    folders: tuple[str, ...]
    changed: tuple[str, ...]
    """Paths of files and folders that are new, gone or different."""
    compared: int
    """Files that were looked at twice."""
    whole: bool
    """Whether those were all."""

    @property
    def words(self) -> str:
        """A clause: `312 files in /job are as they were`."""
        where = ", ".join(self.folders)
        if self.changed:
            shown = ", ".join(self.changed[:_SHOWN])
            more = say(" and {changed} more", changed=len(self.changed) - _SHOWN) if len(self.changed) > _SHOWN else ""
            return say("changed meanwhile, by the runs or by another program: {shown}{more}", shown=shown, more=more)
        if not self.whole:
            return say(
                "the first {compared:,} files in {where} are unchanged; the rest was not compared",
                compared=self.compared,
                where=where,
            )
        files = say("the one file") if self.compared == 1 else say("all {compared:,} files", compared=self.compared)
        return (
            say("{files} in {where} are unchanged", files=files, where=where)
            if self.compared != 1
            else say("{files} in {where} is unchanged", files=files, where=where)
        )


class Unchanged:
    """The first look, at the working folder and the folders that the command names."""

    def __init__(self, command: Sequence[str], without: Iterable[str] = ()) -> None:
        self._without = [os.path.realpath(path) for path in without]
        self.folders = tuple(_roots(command))
        self._before: dict[str, dict[str, Signature]] = {}
        self._texts: dict[str, str] = {}
        self._files, self._whole = 0, True
        deadline = time.monotonic() + SECONDS
        read = 0
        queue = list(self.folders)
        for folder in queue:  # it grows while it is walked
            if self._files >= FILES or time.monotonic() > deadline:
                self._whole = False
                break
            if folder in self._before or (entries := self._entries(folder)) is None:
                continue
            self._before[folder] = entries
            for name, signature in entries.items():
                path = os.path.join(folder, name)
                if signature == _FOLDER:
                    queue.append(path)
                    continue
                self._files += 1
                size = signature[1]
                small = isinstance(size, int) and size <= _SMALL and read + size <= _BYTES
                if signature[0] == stat.S_IFREG and small and time.monotonic() < deadline:
                    read += int(str(size))
                    self._texts[path] = _hash(path)

    def look(self, kept: Iterable[str] = ()) -> SecondLook:
        """The second look; `kept` are files that were changed on purpose."""
        on_purpose = {os.path.realpath(path) for path in kept}
        changed = [path for path in self._differences() if os.path.realpath(path) not in on_purpose]
        return SecondLook(folders=self.folders, changed=tuple(changed), compared=self._files, whole=self._whole)

    def _differences(self) -> Iterator[str]:
        for folder, before in self._before.items():
            after = self._entries(folder)
            if after is None:
                yield folder
                continue
            for name in sorted(before.keys() | after.keys()):
                path = os.path.join(folder, name)
                if before.get(name) != after.get(name) and not self._same(path, before.get(name), after.get(name)):
                    yield path

    def _same(self, path: str, before: Signature | None, after: Signature | None) -> bool:
        """Whether only the times differ and the content, which was read, is the same."""
        if before is None or after is None or before[:_LASTING] != after[:_LASTING]:
            return False
        return path in self._texts and self._texts[path] == _hash(path)

    def _entries(self, folder: str) -> dict[str, Signature] | None:
        """What a folder holds by name; None where it cannot be read."""
        found: dict[str, Signature] = {}
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    if not any(inside(entry.path, path) for path in self._without):
                        with suppress(OSError):
                            found[entry.name] = _signature(entry)
        except OSError:
            return None
        return found


_FOLDER: Signature = ("folder",)
_LASTING = 5
"""Parts of a signature that stay as they are when a file is written anew with the same content."""


def _signature(entry: "os.DirEntry[str]") -> Signature:
    status = entry.stat(follow_symlinks=False)
    kind = stat.S_IFMT(status.st_mode)
    if kind == stat.S_IFDIR:
        return _FOLDER
    link = os.readlink(entry.path) if kind == stat.S_IFLNK else ""
    return (kind, status.st_size, stat.S_IMODE(status.st_mode), status.st_ino, link, status.st_mtime_ns,
            status.st_ctime_ns)  # fmt: skip


def _hash(path: str) -> str:
    with suppress(OSError), open(path, "rb", opener=_without_waiting) as file:
        return hashlib.sha256(file.read(_SMALL + 1)).hexdigest()
    return ""


def _without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def _roots(command: Sequence[str]) -> Iterator[str]:
    """The working folder and those of files that the command names, none inside another.

    The first word is a program: its folder is nobody's project.
    """
    words = [word.rpartition("=")[2] for word in command[1:]]
    found = [os.getcwd(), *(os.path.dirname(os.path.abspath(word)) for word in words if os.path.isfile(word))]
    found = sorted({os.path.realpath(path) for path in found}, key=len)
    chosen: list[str] = []
    for path in found:
        if os.access(path, os.W_OK) and not any(inside(path, other) for other in chosen):
            chosen.append(path)
    yield from chosen
