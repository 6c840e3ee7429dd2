"""The user's folders before and after the trials: what changed meanwhile, whoever changed it.

Of every file: mode, size, inode, times. The kernel sets the time of the last change (ctime) itself, so a program that
writes and puts the old time back is seen. Where a folder is too large the comparison says how much of it was compared.
"""

import os
import stat
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress

from gpudoctor.lang import say
from gpudoctor.model.records import frozen
from gpudoctor.trial.scratch import inside

FILES, SECONDS = 50_000, 3.0
"""The most files that are compared, and seconds that a walk over them may take."""
_SHOWN = 5

Signature = tuple[object, ...]


@frozen
class SecondLook:
    """What a second look has shown."""

    changed: tuple[str, ...]
    """Paths of files and folders that are new, gone or different."""
    words: str
    """A clause: `all 312 files in /job are unchanged`."""


class Unchanged:
    """The first look, at the working folder and the folders that the command names."""

    def __init__(self, command: Sequence[str], without: Iterable[str] = ()) -> None:
        self._without = [os.path.realpath(path) for path in without]
        self.folders = tuple(_roots(command))
        self._before: dict[str, Signature] = {}
        self._files, self._whole = 0, True
        self._walked = list(self.folders)
        deadline = time.monotonic() + SECONDS
        for number, folder in enumerate(self._walked):  # it grows while it is walked
            if self._files >= FILES or time.monotonic() > deadline:
                self._whole = False
                del self._walked[number:]
                break
            entries = self._entries(folder)
            self._before |= entries
            self._walked += [path for path, signature in entries.items() if signature == _FOLDER]
            self._files += sum(signature != _FOLDER for signature in entries.values())

    def look(self, kept: Iterable[str] = ()) -> SecondLook:
        """The second look; `kept` are files that were changed on purpose."""
        before = self._before
        after = {path: item for folder in self._walked for path, item in self._entries(folder).items()}
        on_purpose = {os.path.realpath(path) for path in kept}
        differing = [path for path in sorted(before.keys() | after.keys()) if before.get(path) != after.get(path)]
        changed = [path for path in differing if os.path.realpath(path) not in on_purpose]
        where = ", ".join(self.folders)
        if changed:
            shown = ", ".join(changed[:_SHOWN])
            more = say(" and {changed} more", changed=len(changed) - _SHOWN) if len(changed) > _SHOWN else ""
            words = say("changed meanwhile, by the runs or by another program: {shown}{more}", shown=shown, more=more)
        elif not self._whole:
            words = say(
                "the first {compared:,} files in {where} are unchanged; the rest was not compared",
                compared=self._files,
                where=where,
            )
        elif self._files == 1:
            words = say("{files} in {where} is unchanged", files=say("the one file"), where=where)
        else:
            files = say("all {compared:,} files", compared=self._files)
            words = say("{files} in {where} are unchanged", files=files, where=where)
        return SecondLook(changed=tuple(changed), words=words)

    def _entries(self, folder: str) -> dict[str, Signature]:
        """What a folder holds by path; nothing where it cannot be read."""
        found: dict[str, Signature] = {}
        with suppress(OSError), os.scandir(folder) as entries:
            for entry in entries:
                if any(inside(entry.path, path) for path in self._without):
                    continue
                with suppress(OSError):
                    status = entry.stat(follow_symlinks=False)
                    kind, mode = stat.S_IFMT(status.st_mode), stat.S_IMODE(status.st_mode)
                    link = os.readlink(entry.path) if kind == stat.S_IFLNK else ""
                    times = status.st_mtime_ns, status.st_ctime_ns
                    own = kind, status.st_size, mode, status.st_ino, link, *times
                    found[entry.path] = _FOLDER if kind == stat.S_IFDIR else own
        return found


_FOLDER: Signature = ("folder",)


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
