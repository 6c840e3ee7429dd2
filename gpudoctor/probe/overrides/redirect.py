"""Where paths lead when writes are redirected: files as they would be, had the program written to them.

A file that is written is written in the place; one that is changed is copied there first; one that is deleted
is marked. Reading looks there first. All processes of a run share the place, so each sees what the others did.
"""

from __future__ import annotations

import errno
import os
import shutil
from typing import Any

_FREE = ("/dev", "/proc", "/sys")
_MARK = ".gone"
"""Name of the file that marks a folder or file as deleted, in a tree beside the place."""
_LINKS = 40

# What the rest of the program sees is replaced (writes.py).
os_open, io_open = os.open, open
stat_of, lstat_of = os.stat, os.lstat
remove, rename, mkdir, rmdir = os.remove, os.rename, os.mkdir, os.rmdir
readlink, symlink = os.readlink, os.symlink
listdir, scandir = os.listdir, os.scandir
chdir, getcwd = os.chdir, os.getcwd
chmod, utime, truncate = os.chmod, os.utime, os.truncate


class Redirect:
    """The place, and what lies in it."""

    def __init__(self, place: str, free: list[str], only: list[str] | None = None) -> None:
        self.place = os.path.realpath(place)
        self._marks = self.place + _MARK
        self._free = (*_FREE, self.place, self._marks, *map(os.path.realpath, free))
        self._only = only
        """Folders outside which nothing is redirected; None redirects everywhere. `/` means its entries."""
        self._folders: dict[str, str] = {}
        self._away = self.cwd() != getcwd()

    # -- from a path of the program to one of ours

    def mapped(self, path: Any, follow: bool = True) -> str | None:
        """The path in the place; None for what is not redirected (handles, devices, our own folders)."""
        if isinstance(path, int):
            return None
        try:
            text = os.fsdecode(path)
        except TypeError:
            return None
        whole = self.whole(text, follow)
        return None if self.free(whole) else self.place + whole

    def whole(self, text: str, follow: bool) -> str:
        """The absolute path without links; the last name may stay one."""
        if not text.startswith("/"):
            text = f"{self.cwd()}/{text}" if text else self.cwd()
        head, _, name = text.rstrip("/").rpartition("/")
        if name in ("", ".", ".."):
            return self._folder(text)
        folder = self._folder(head)
        path = f"{folder}/{name}" if folder != "/" else f"/{name}"
        for _ in range(_LINKS if follow else 0):
            target = self.link(path)
            if target is None:
                break
            path = self.whole(target if target.startswith("/") else f"{folder}/{target}", follow=False)
            folder = os.path.dirname(path)
        return path

    def free(self, whole: str) -> bool:
        """Whether everybody may write there."""
        if any(whole == free or whole.startswith(free + "/") for free in self._free):
            return True
        if self._only is None:
            return False
        return not any(
            whole.startswith(folder + "/") if folder != "/" else whole.rfind("/") == 0 for folder in self._only
        )

    def cwd(self) -> str:
        """The working folder as the program knows it: a new one really lies in the place."""
        here = getcwd()
        if here == self.place or here.startswith(self.place + "/"):
            return here[len(self.place) :] or "/"
        return here

    def go(self, path: Any) -> None:
        """Change the working folder: to the user's where there is one, so that all libraries find its files."""
        mapped = self.mapped(path)
        if mapped is None:
            chdir(self._plain(path, follow=True))
        else:
            whole = mapped[len(self.place) :]
            known = is_folder(whole) and not self.deleted(whole)
            chdir(whole if known else self.readable(path))
        self._away = self.cwd() != getcwd()
        self.forget_links()

    def link(self, whole: str) -> str | None:
        """Where a symbolic link leads; None where there is none."""
        try:
            return readlink(self.place + whole)
        except OSError as error:
            if error.errno != errno.ENOENT and error.errno != errno.ENOTDIR:
                return None
        try:
            target = readlink(whole)
        except OSError:
            return None
        return None if self.deleted(whole) else target

    def forget_links(self) -> None:
        """One was made, moved or deleted."""
        self._folders.clear()

    def _folder(self, text: str) -> str:
        known = self._folders.get(text)
        if known is None:
            if len(self._folders) > 8192:
                self._folders.clear()
            known = self._folders[text] = self._resolved(text)
        return known

    def _resolved(self, text: str) -> str:
        parts, done, links = text.split("/"), "", 0
        parts.reverse()
        while parts:
            name = parts.pop()
            if name in ("", "."):
                continue
            if name == "..":
                done = done.rpartition("/")[0]
                continue
            path = f"{done}/{name}"
            target = self.link(path) if links < _LINKS else None
            if target is None:
                done = path
                continue
            links += 1
            parts += reversed(target.split("/"))
            done = "" if target.startswith("/") else done
        return done or "/"

    # -- what is there

    def readable(self, path: Any, follow: bool = True) -> Any:
        """The path to read from. Raises `FileNotFoundError` for what was deleted."""
        if isinstance(path, int):
            return path
        mapped = self.mapped(path, follow)
        if mapped is None:
            return self._plain(path, follow)
        if exists(mapped):
            return mapped
        if self.deleted(mapped[len(self.place) :]):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return self._plain(path, follow)

    def _plain(self, path: Any, follow: bool) -> Any:
        """A path that is not redirected: a relative one counts from where the program believes to be."""
        if not self._away:
            return path
        text = os.fsdecode(path)
        return path if text.startswith("/") else self.whole(text, follow)

    def exists(self, path: Any) -> bool:
        """Whether there is such an entry, as the program sees it."""
        try:
            lstat_of(self.readable(path, follow=False))
        except OSError:
            return False
        return True

    def deleted(self, whole: str) -> bool:
        """Whether what the user has there was deleted, or the folder that it is in."""
        if not exists(self._marks):
            return False
        while whole not in ("", "/"):
            if exists(f"{self._marks}{whole}/{_MARK}"):
                return True
            whole = whole.rpartition("/")[0]
        return False

    def names(self, path: Any) -> list[str]:
        """Names in a folder."""
        mapped = self.mapped(path)
        if mapped is None:
            return listdir(self._plain(path, follow=True))
        whole = mapped[len(self.place) :]
        there, hidden = is_folder(mapped), self.deleted(whole)
        names = set(listdir(mapped)) if there else set()
        if not hidden and (not there or is_folder(whole)):
            names |= {name for name in listdir(whole) if not exists(f"{self._marks}{whole}/{name}/{_MARK}")}
        elif not there:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return sorted(names)

    # -- what changes it

    def writable(self, path: Any, *, keep: bool, follow: bool = True) -> Any:
        """The path to write to; `keep` brings what is there (a file with its content, a folder's mode)."""
        if isinstance(path, int):
            return path
        mapped = self.mapped(path, follow)
        if mapped is None:
            return self._plain(path, follow)
        whole = mapped[len(self.place) :]
        stat_of(self.readable(whole.rpartition("/")[0] or "/"))  # no such folder: as it would have been
        self._make_folders(mapped.rpartition("/")[0])
        if keep and not exists(mapped) and exists(whole) and not self.deleted(whole):
            if is_folder(whole):
                self._make_folders(mapped)
            elif is_file(whole):
                copy(whole, mapped)
        return mapped

    def delete(self, path: Any) -> None:
        """Forget a file or a link, here and there."""
        mapped = self.mapped(path, follow=False)
        if mapped is None:
            remove(self._plain(path, follow=False))
            return
        found = self.readable(path, follow=False)
        if (lstat_of(found).st_mode & 0o170000) == 0o040000:
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        if exists(mapped):
            remove(mapped)
        self.mark(mapped[len(self.place) :])

    def mark(self, whole: str) -> None:
        """What the user has there is seen no more; what is written later lies in the place."""
        self.forget_links()
        if exists(whole):
            folder = self._marks + whole
            os_makedirs(folder)
            os.close(os_open(f"{folder}/{_MARK}", os.O_CREAT | os.O_WRONLY, 0o600))

    def move(self, source: Any, target: Any) -> None:
        """Rename. Raises `OSError` as `os.rename` does."""
        old = self.readable(source, follow=False)
        folder = (lstat_of(old).st_mode & 0o170000) == 0o040000
        if self.exists(target):
            self._replaceable(folder, target)
        here, there = self.mapped(source, follow=False), self.mapped(target, follow=False)
        if here is not None and here == there:
            return
        new = self.writable(target, keep=False, follow=False)
        if folder:
            self._move_folder(source, here, target, new)
        elif here is not None and exists(here):
            rename(here, new)
        else:
            copy(old, new)
            if here is None:
                remove(old)
        if here is not None:
            self.mark(here[len(self.place) :])
        self.forget_links()

    def _replaceable(self, folder: bool, target: Any) -> None:
        onto = is_folder(self.readable(target, follow=False), follow=False)
        if folder and not onto:
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), target)
        if onto and not folder:
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), target)
        if onto and self.names(target):
            raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), target)

    def _move_folder(self, source: Any, here: str | None, target: Any, new: Any) -> None:
        there = self.mapped(target, follow=False)
        if there is not None and exists(there[len(self.place) :]):
            self.mark(there[len(self.place) :])
        whole = here[len(self.place) :] if here is not None else ""
        if here is not None and exists(here) and (not exists(whole) or self.deleted(whole)):
            if exists(new):
                rmdir(new)
            rename(here, new)
            return
        shutil.copytree(source, target, symlinks=True, dirs_exist_ok=True)  # by the replaced functions
        if here is None:
            shutil.rmtree(source)
        elif exists(here):
            remove_tree(here)

    def _make_folders(self, path: str) -> None:
        missing = []
        while not is_folder(path):
            missing.append(path)
            path = path.rpartition("/")[0]
        for folder in reversed(missing):
            whole = folder[len(self.place) :]
            try:
                mkdir(folder, 0o700)
                if is_folder(whole):
                    chmod(folder, (stat_of(whole).st_mode & 0o7777) | 0o700)
            except FileExistsError:  # another rank was faster
                pass


def os_makedirs(path: str) -> None:
    """`os.makedirs` by functions that nobody has replaced."""
    if not is_folder(path):
        os_makedirs(path.rpartition("/")[0])
        try:
            mkdir(path, 0o700)
        except FileExistsError:
            pass


def remove_tree(path: str) -> None:
    """Delete a folder of ours with all that is in it."""
    for name in listdir(path):
        entry = f"{path}/{name}"
        if is_folder(entry, follow=False):
            remove_tree(entry)
        else:
            remove(entry)
    rmdir(path)


def copy(source: Any, target: str) -> None:
    """Content, mode and times; a link as a link."""
    if (lstat_of(source).st_mode & 0o170000) == 0o120000:
        symlink(readlink(source), target)
        return
    with io_open(source, "rb") as old, io_open(target, "wb") as new:
        shutil.copyfileobj(old, new)
    status = stat_of(source)
    chmod(target, (status.st_mode & 0o7777) | 0o200)
    utime(target, ns=(status.st_atime_ns, status.st_mtime_ns))


def exists(path: Any) -> bool:
    """Whether there really is such an entry."""
    try:
        lstat_of(path)
    except OSError:
        return False
    return True


def is_file(path: Any) -> bool:
    """Whether it really is a file."""
    try:
        return (stat_of(path).st_mode & 0o170000) == 0o100000
    except OSError:
        return False


def is_folder(path: Any, follow: bool = True) -> bool:
    """Whether it really is a folder."""
    try:
        return ((stat_of if follow else lstat_of)(path).st_mode & 0o170000) == 0o040000
    except OSError:
        return False
