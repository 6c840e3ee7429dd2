"""`writes.redirected`: what Python's own functions write goes to another place, for kernels without an overlay.

A file that is written is written in the place; one that is changed is copied there first; one that is deleted
is only marked. Reading looks there first. Programs that are not Python, and libraries that open files by
themselves, are not reached: torch's and safetensors' own writers are wrapped for that.
"""

from __future__ import annotations

import builtins
import errno
import functools
import io
import os
import shutil
from collections.abc import Iterator
from typing import Any

_FREE = ("/dev", "/proc", "/sys")
_CHANGES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND

_os_open, _io_open = os.open, io.open
_stat, _lstat = os.stat, os.lstat
_remove, _rename, _mkdir, _rmdir = os.remove, os.rename, os.mkdir, os.rmdir
_listdir, _scandir = os.listdir, os.scandir


@functools.lru_cache(maxsize=8192)
def _real(path: str) -> str:
    """An absolute path with its links followed; `os.path.realpath` asks functions that are replaced here."""
    parts, done = path.split("/"), ""
    for _ in range(1000):
        if not parts:
            break
        name = parts.pop(0)
        if name in ("", "."):
            continue
        if name == "..":
            done = os.path.dirname(done)
            continue
        try:
            target = os.readlink(f"{done}/{name}")
        except OSError:
            done = f"{done}/{name}"
            continue
        parts = target.split("/") + parts
        done = "" if target.startswith("/") else done
    return done or "/"


class Redirect:
    """Where paths lead."""

    def __init__(self, place: str, free: list[str]) -> None:
        self.place = os.path.realpath(place)
        self.free = [os.path.realpath(path) for path in free] + [self.place]
        self.gone: set[str] = set()

    def mapped(self, path: Any) -> str | None:
        """The path in the place; None for what is not redirected (handles, devices, our own folders)."""
        if isinstance(path, int):
            return None
        try:
            text = os.fsdecode(path)
        except TypeError:
            return None
        folder, name = os.path.split(os.path.abspath(text))
        whole = os.path.join(_real(folder), name)
        if any(whole == free or whole.startswith(free + os.sep) for free in (*_FREE, *self.free)):
            return None
        return self.place + whole

    def readable(self, path: Any) -> Any:
        """The path to read from. Raises `FileNotFoundError` for what was deleted."""
        mapped = self.mapped(path)
        if mapped is None:
            return path
        if self._there(mapped):
            return mapped
        if self._deleted(mapped):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return path

    def writable(self, path: Any, *, keep: bool) -> Any:
        """The path to write to; `keep` copies what is there first."""
        mapped = self.mapped(path)
        if mapped is None:
            return path
        parent = os.path.dirname(os.path.abspath(os.fsdecode(path)))
        _stat(self.readable(parent))  # no such folder: as it would have been
        _make_folders(os.path.dirname(mapped))
        if keep and not self._there(mapped) and not self._deleted(mapped) and _is_file(path):
            _copy(path, mapped)
        self.gone.discard(mapped)
        return mapped

    def delete(self, path: Any) -> None:
        """Forget a file, here and there."""
        mapped = self.mapped(path)
        if mapped is None:
            _remove(path)
            return
        _lstat(self.readable(path))
        if self._there(mapped):
            _remove(mapped)
        self.gone.add(mapped)

    def _there(self, mapped: str) -> bool:
        try:
            _lstat(mapped)
        except OSError:
            return False
        return True

    def _deleted(self, mapped: str) -> bool:
        while len(mapped) > len(self.place):
            if mapped in self.gone:
                return True
            mapped = os.path.dirname(mapped)
        return False

    def names(self, path: Any) -> list[str]:
        """Names in a folder."""
        mapped = self.mapped(path)
        if mapped is None:
            return _listdir(path)
        names = set(_listdir(mapped)) if os.path.isdir(mapped) else set()
        if not self._deleted(mapped) and (not names or _is_folder(path)):
            names |= set(_listdir(path))
        return sorted(name for name in names if not self._deleted(os.path.join(mapped, name)))


def install(table: dict[str, Any]) -> Redirect:
    """Replace the writers of Python."""
    _make_folders(table["place"])
    redirect = Redirect(table["place"], table["free"])
    _install_opening(redirect)
    _install_names(redirect)
    _install_looking(redirect)
    return redirect


def apply(trial: Any, redirect: Redirect) -> None:
    """The writers of torch and safetensors, once torch is there."""
    core = trial.torch._C
    original = core.PyTorchFileWriter

    def writer(target: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(target, (str, bytes, os.PathLike)):
            target = redirect.writable(target, keep=False)
        return original(target, *args, **kwargs)

    core.PyTorchFileWriter = writer
    trial.probe.when_imported("safetensors.torch", lambda module: _safetensors(redirect, module))
    trial.probe.when_imported("safetensors.numpy", lambda module: _safetensors(redirect, module))


def _safetensors(redirect: Redirect, module: Any) -> None:
    original = module.serialize_file

    def serialize_file(tensors: Any, filename: Any, *args: Any, **kwargs: Any) -> Any:
        return original(tensors, redirect.writable(filename, keep=False), *args, **kwargs)

    module.serialize_file = serialize_file
    opened = module.safe_open
    module.safe_open = lambda filename, *args, **kwargs: opened(redirect.readable(filename), *args, **kwargs)


def _install_opening(redirect: Redirect) -> None:
    def open_(file: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
        if not isinstance(file, int):
            if set(mode) & set("wax+"):
                if "x" in mode and _exists(redirect, file):
                    raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), file)
                file = redirect.writable(file, keep="w" not in mode)
            else:
                file = redirect.readable(file)
        return _io_open(file, mode, *args, **kwargs)

    def os_open(path: Any, flags: int, mode: int = 0o777, *, dir_fd: Any = None) -> int:
        if dir_fd is None:
            if flags & _CHANGES:
                path = redirect.writable(path, keep=not flags & os.O_TRUNC)
            else:
                path = redirect.readable(path)
        return _os_open(path, flags, mode, dir_fd=dir_fd)

    builtins.open = io.open = open_
    os.open = os_open


def _install_names(redirect: Redirect) -> None:
    def remove(path: Any, *, dir_fd: Any = None) -> None:
        redirect.delete(path) if dir_fd is None else _remove(path, dir_fd=dir_fd)

    def rename(source: Any, target: Any, **kwargs: Any) -> None:
        if kwargs or (redirect.mapped(source) is None and redirect.mapped(target) is None):
            _rename(source, target, **kwargs)
            return
        old = redirect.readable(source)
        new = redirect.writable(target, keep=False)
        if _is_folder(old):
            shutil.copytree(source, target, dirs_exist_ok=True)
            rmtree(source, ignore_errors=True)
        else:
            _copy(old, new)
            redirect.delete(source)

    def mkdir(path: Any, mode: int = 0o777, *, dir_fd: Any = None) -> None:
        if dir_fd is None and redirect.mapped(path) is not None:
            if _exists(redirect, path):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
            path = redirect.writable(path, keep=False)
        _mkdir(path, mode, dir_fd=dir_fd)

    def rmdir(path: Any, *, dir_fd: Any = None) -> None:
        mapped = redirect.mapped(path) if dir_fd is None else None
        if mapped is None:
            _rmdir(path, dir_fd=dir_fd)
            return
        if redirect.names(path):
            raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), path)
        if os.path.isdir(mapped):
            _rmdir(mapped)
        redirect.gone.add(mapped)

    def rmtree(path: Any, *args: Any, **kwargs: Any) -> None:
        mapped = redirect.mapped(path)
        if mapped is None:
            _rmtree(path, *args, **kwargs)
            return
        if _exists(redirect, path):
            _rmtree(mapped, ignore_errors=True)
            redirect.gone.add(mapped)
        elif not ((args and args[0]) or kwargs.get("ignore_errors")):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)

    _rmtree = shutil.rmtree
    os.remove = os.unlink = remove
    os.rename = os.replace = rename  # type: ignore[assignment]
    os.mkdir, os.rmdir = mkdir, rmdir
    shutil.rmtree = rmtree  # type: ignore[assignment]


def _install_looking(redirect: Redirect) -> None:
    def looking(original: Any) -> Any:
        def look(path: Any, *args: Any, **kwargs: Any) -> Any:
            return original(
                path if kwargs.get("dir_fd") is not None else redirect.readable(path), *args, **kwargs
            )

        return look

    def listdir(path: Any = ".") -> Any:
        return _listdir(path) if isinstance(path, (int, bytes)) else redirect.names(path)

    def scandir(path: Any = ".") -> Any:
        if isinstance(path, (int, bytes)) or redirect.mapped(path) is None:
            return _scandir(path)
        return Entries(redirect, path)

    for name in ("stat", "lstat", "access", "chmod", "utime"):
        setattr(os, name, looking(getattr(os, name)))
    os.listdir, os.scandir = listdir, scandir


class Entries:
    """`os.scandir` over both places."""

    def __init__(self, redirect: Redirect, path: Any) -> None:
        names = set(redirect.names(path))
        found: dict[str, Any] = {}
        for place in (redirect.mapped(path), path):
            if place is not None and _is_folder(place):
                with _scandir(place) as entries:
                    for entry in entries:
                        if entry.name in names:
                            found.setdefault(entry.name, entry)
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


def _make_folders(path: str) -> None:
    missing = []
    while not _is_folder(path):
        missing.append(path)
        path = os.path.dirname(path)
    for folder in reversed(missing):
        _mkdir(folder, 0o700)


def _copy(source: Any, target: str) -> None:
    """The content and the mode, by the functions that nobody has replaced."""
    with _io_open(source, "rb") as old, _io_open(target, "wb") as new:
        shutil.copyfileobj(old, new)
    os.chmod(target, _stat(source).st_mode & 0o7777)


def _is_file(path: Any) -> bool:
    try:
        return (_stat(path).st_mode & 0o170000) == 0o100000
    except OSError:
        return False


def _is_folder(path: Any) -> bool:
    try:
        return (_stat(path).st_mode & 0o170000) == 0o040000
    except OSError:
        return False


def _exists(redirect: Redirect, path: Any) -> bool:
    try:
        _lstat(redirect.readable(path))
    except OSError:
        return False
    return True
