"""`writes.redirected`: what Python's own functions write goes to another place, where no overlay can be had.

Libraries that open files by themselves are wrapped one by one (library_writes.py); of other programs nothing is
known. With `strict` an audit hook refuses what still goes past: the last resort, with no Landlock around it.
"""

from __future__ import annotations

import builtins
import errno
import functools
import io
import os
import shutil
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

from . import redirect as real
from .redirect import Redirect

_CHANGES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


def install(table: dict[str, Any]) -> Redirect:
    """Replace the writers of Python."""
    real.os_makedirs(table["place"])
    found = Redirect(table["place"], table["free"], table.get("only"))
    _install_opening(found)
    _install_names(found)
    _install_changing(found)
    _install_looking(found)
    _install_going(found)
    if table.get("strict"):
        sys.addaudithook(_Refusing(found).heard)
    return found


def _install_opening(redirect: Redirect) -> None:
    def open_(file: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
        if not isinstance(file, int):
            if set(mode) & set("wax+"):
                if "x" in mode and redirect.exists(file):
                    raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), file)
                file = redirect.writable(file, keep="w" not in mode)
            else:
                file = redirect.readable(file)
        return real.io_open(file, mode, *args, **kwargs)

    def os_open(path: Any, flags: int, mode: int = 0o777, *, dir_fd: Any = None) -> int:
        if dir_fd is None and not isinstance(path, int):
            if flags & _CHANGES and (flags & os.O_CREAT or redirect.exists(path)):
                if flags & os.O_EXCL and redirect.exists(path):
                    raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
                path = redirect.writable(path, keep=not flags & os.O_TRUNC)
            else:
                path = redirect.readable(path)
        return real.os_open(path, flags, mode, dir_fd=dir_fd)

    builtins.open = io.open = Plain(open_, real.io_open)
    _put("open", os_open)


def _install_names(redirect: Redirect) -> None:
    def remove(path: Any, *, dir_fd: Any = None) -> None:
        redirect.delete(path) if dir_fd is None else real.remove(path, dir_fd=dir_fd)

    def rename(source: Any, target: Any, *, src_dir_fd: Any = None, dst_dir_fd: Any = None) -> None:
        if src_dir_fd is None and dst_dir_fd is None:
            redirect.move(source, target)
        else:
            real.rename(source, target, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)

    def mkdir(path: Any, mode: int = 0o777, *, dir_fd: Any = None) -> None:
        if dir_fd is None:
            if redirect.exists(path):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
            path = redirect.writable(path, keep=False, follow=False)
        real.mkdir(path, mode, dir_fd=dir_fd)

    def rmdir(path: Any, *, dir_fd: Any = None) -> None:
        mapped = redirect.mapped(path, follow=False) if dir_fd is None else None
        if mapped is None:
            real.rmdir(path, dir_fd=dir_fd)
            return
        if not real.is_folder(redirect.readable(path, follow=False), follow=False):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
        if redirect.names(path):
            raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), path)
        if real.is_folder(mapped):
            real.rmdir(mapped)
        redirect.mark(mapped[len(redirect.place) :])

    def symlink(source: Any, target: Any, target_is_directory: bool = False, *, dir_fd: Any = None) -> None:
        if dir_fd is None:
            if redirect.exists(target):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), target)
            target = redirect.writable(target, keep=False, follow=False)
            redirect.forget_links()
        real.symlink(source, target, target_is_directory, dir_fd=dir_fd)

    def link(source: Any, target: Any, **_kwargs: Any) -> None:
        if redirect.exists(target):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), target)
        real.copy(redirect.readable(source), redirect.writable(target, keep=False, follow=False))

    def rmtree(path: Any, ignore_errors: bool = False, *args: Any, **kwargs: Any) -> None:
        mapped = redirect.mapped(path, follow=False) if kwargs.get("dir_fd") is None else None
        if mapped is None:
            whole_tree(path, ignore_errors, *args, **kwargs)
        elif redirect.exists(path) and real.is_folder(redirect.readable(path, follow=False), follow=False):
            if real.is_folder(mapped):
                real.remove_tree(mapped)
            redirect.mark(mapped[len(redirect.place) :])
        elif not ignore_errors and not args and not kwargs:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)

    whole_tree = shutil.rmtree
    for name, function in (
        ("remove", remove), ("unlink", remove), ("rename", rename), ("replace", rename), ("mkdir", mkdir),
        ("rmdir", rmdir), ("symlink", symlink), ("link", link),
    ):  # fmt: skip
        _put(name, function)
    shutil.rmtree = rmtree  # type: ignore[assignment]


def _install_changing(redirect: Redirect) -> None:
    """What changes a file without opening it."""

    def changing(original: Callable[..., Any]) -> Callable[..., Any]:
        def change(path: Any, *args: Any, **kwargs: Any) -> Any:
            if kwargs.get("dir_fd") is None:
                follow = kwargs.get("follow_symlinks", True)
                if not isinstance(path, int):
                    real.lstat_of(redirect.readable(path, follow))  # nothing there: as it would have been
                path = redirect.writable(path, keep=True, follow=follow)
            return original(path, *args, **kwargs)

        return change

    for name in ("chmod", "utime", "truncate", "chown", "lchown", "setxattr", "removexattr", "mkfifo", "mknod"):
        original = getattr(os, name, None)
        if original is not None:
            _put(name, _making(redirect, original) if name.startswith("mk") else changing(original))


def _making(redirect: Redirect, original: Callable[..., Any]) -> Callable[..., Any]:
    def make(path: Any, *args: Any, **kwargs: Any) -> Any:
        if kwargs.get("dir_fd") is None:
            path = redirect.writable(path, keep=False, follow=False)
        return original(path, *args, **kwargs)

    return make


def _install_looking(redirect: Redirect) -> None:
    def looking(original: Callable[..., Any], follows: bool) -> Callable[..., Any]:
        def look(path: Any, *args: Any, **kwargs: Any) -> Any:
            if kwargs.get("dir_fd") is None:
                path = redirect.readable(path, follows and kwargs.get("follow_symlinks", True))
            return original(path, *args, **kwargs)

        return look

    def listdir(path: Any = ".") -> Any:
        if path is None or isinstance(path, (int, bytes)):
            return real.listdir(path)
        return redirect.names(path)

    def scandir(path: Any = ".") -> Any:
        if path is None or isinstance(path, (int, bytes)) or redirect.mapped(path) is None:
            return real.scandir(path if path is None or isinstance(path, int) else redirect.readable(path))
        return Entries(redirect, path)

    for name in ("stat", "lstat", "access", "readlink", "statvfs", "getxattr", "listxattr"):
        if hasattr(os, name):
            _put(name, looking(getattr(os, name), follows=name not in ("lstat", "readlink")))
    _put("listdir", listdir)
    _put("scandir", scandir)


def _install_going(redirect: Redirect) -> None:
    """The working folder, also that of a program which is started."""
    import subprocess

    def chdir(path: Any) -> None:
        real.chdir(path) if isinstance(path, int) else redirect.go(path)

    begin = subprocess.Popen.__init__

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        if kwargs.get("cwd") is not None and not real.is_folder(kwargs["cwd"]):
            kwargs["cwd"] = redirect.readable(kwargs["cwd"])
        begin(self, *args, **kwargs)

    _put("chdir", chdir)
    _put("getcwd", redirect.cwd)
    _put("getcwdb", lambda: os.fsencode(redirect.cwd()))
    subprocess.Popen.__init__ = __init__  # type: ignore[method-assign]


class RedirectedEntry:
    """One of `os.scandir`, under the name that the program knows."""

    def __init__(self, entry: Any, path: str) -> None:
        self._entry = entry
        self.name = entry.name
        self.path = path

    def __getattr__(self, name: str) -> Any:
        return getattr(self._entry, name)

    def __fspath__(self) -> str:
        return self.path

    def __repr__(self) -> str:
        return f"<DirEntry {self.name!r}>"


class Entries:
    """`os.scandir` over both places."""

    def __init__(self, redirect: Redirect, path: Any) -> None:
        names = set(redirect.names(path))
        mapped, folder = str(redirect.mapped(path)), os.fspath(path)
        found: dict[str, Any] = {}
        for place in (mapped, mapped[len(redirect.place) :]):
            if real.is_folder(place):
                with real.scandir(place) as entries:
                    for entry in entries:
                        if entry.name in names and entry.name not in found:
                            found[entry.name] = RedirectedEntry(entry, os.path.join(folder, entry.name))
        self._entries = iter(list(found.values()))

    def __iter__(self) -> Iterator[Any]:
        return self._entries

    def __next__(self) -> Any:
        return next(self._entries)

    def __enter__(self) -> Entries:
        return self

    def __exit__(self, *_args: Any) -> None:
        """Nothing is open."""

    def close(self) -> None:
        """Nothing is open."""


class Plain:
    """A function that becomes no method where a class takes it as an attribute (`pathlib` up to 3.10 does)."""

    def __init__(self, function: Callable[..., Any], original: Any) -> None:
        self._function = function
        functools.update_wrapper(self, original)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The function's result."""
        return self._function(*args, **kwargs)


def _put(name: str, function: Callable[..., Any]) -> None:
    """A function of `os` in the place of another, with what it is known to support."""
    original = getattr(os, name)
    new = Plain(function, original)
    for abilities in (os.supports_dir_fd, os.supports_fd, os.supports_follow_symlinks, os.supports_effective_ids):
        if original in abilities:
            abilities.add(new)
    setattr(os, name, new)


class _Refusing:
    """Refuses writes that were not redirected: by `io.FileIO`, by a library that took `open` before."""

    _CHANGED = {
        "os.remove": ((0, 1),), "os.rename": ((0, 2), (1, 3)), "os.rmdir": ((0, 1),), "os.mkdir": ((0, 2),),
        "os.truncate": ((0, None),), "os.chmod": ((0, 2),), "os.chown": ((0, 3),), "os.utime": ((0, 3),),
        "os.link": ((1, 3),), "os.symlink": ((1, 2),), "os.setxattr": ((0, None),),
        "os.removexattr": ((0, None),), "sqlite3.connect": ((0, None),),
    }  # fmt: skip
    """Event to which of its arguments are changed, and which say what folder they are relative to."""

    def __init__(self, redirect: Redirect) -> None:
        self._redirect = redirect
        self._busy = threading.local()

    def heard(self, event: str, args: tuple[Any, ...]) -> None:
        """An audit event. Raises `PermissionError`."""
        changed: tuple[tuple[int, int | None], ...] = self._CHANGED.get(event, ())
        if event == "open" and len(args) > 2 and isinstance(args[2], int) and args[2] & _CHANGES:
            changed = ((0, None),)
        if not changed or getattr(self._busy, "now", False):
            return
        self._busy.now = True
        try:
            for path, folder in changed:
                self._refuse(args[path], -1 if folder is None else args[folder])
        finally:
            self._busy.now = False

    def _refuse(self, path: Any, folder: int) -> None:
        if isinstance(path, int) or path is None:
            return
        text = os.fsdecode(path)
        if text in ("", ":memory:"):
            return
        if folder >= 0 and not text.startswith("/"):
            text = os.path.join(real.readlink(f"/proc/self/fd/{folder}"), text)
        if self._redirect.mapped(text, follow=False) is not None:
            raise PermissionError(errno.EACCES, "a trial changes nothing here", path)
