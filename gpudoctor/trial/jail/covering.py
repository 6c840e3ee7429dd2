"""Every folder becomes an overlay: what a run writes lands in a scratch place."""

import ctypes
import json
import os
import signal
import stat
from contextlib import suppress
from typing import Any

from gpudoctor.lang import say

# The kernel's side: a mount namespace, overlays, binds. Standard library only.

_NEWNS, _NEWUSER = 0x00020000, 0x10000000
_PARENT_DEATH = 1
_READ_ONLY, _REMOUNT, _BIND, _REC, _PRIVATE = 1, 32, 4096, 16384, 1 << 18
_KEPT_FLAGS = {2: 2, 4: 4, 8: 8, 1024: 1024, 2048: 2048, 4096: 1 << 21}
"""statvfs(3) flags to mount(2) flags: nosuid, nodev, noexec, noatime, nodiratime, relatime. A mount of somebody
else's keeps them."""


class Mounts:
    """A namespace of this process's own, and what can be mounted in it. Every method raises `OSError`."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        parent = os.getppid()
        self.own = self._unshare()
        """Whether it took a user namespace: files of other users and groups cannot be changed in one."""
        self._libc.prctl(_PARENT_DEATH, int(signal.SIGKILL), 0, 0, 0)  # a new user namespace has cleared it
        if os.getppid() != parent:
            raise OSError("gpudoctor has ended")
        self._mount(None, "/", None, _REC | _PRIVATE)

    def overlay(self, source: str, path: str, upper: str, work: str) -> None:
        """What is written to `path` goes to `upper`; `source` is the folder below."""
        status = os.stat(source)  # what stands for a folder looks like it
        os.chmod(upper, stat.S_IMODE(status.st_mode))
        with suppress(OSError):
            os.chown(upper, status.st_uid, status.st_gid)
        options = f"lowerdir={source},upperdir={upper},workdir={work}"
        # Without the second, a folder below cannot be renamed; a user namespace may not have it.
        options += ",userxattr" if self.own else ",redirect_dir=on"
        self._mount("overlay", path, "overlay", 0, options)

    def bind(self, source: str, path: str) -> None:
        """`path` shows `source`, with all that is mounted below."""
        self._mount(source, path, None, _BIND | _REC)

    def seal(self, path: str, flags: int) -> None:
        """The mount at a path becomes read-only; `flags` are those of statvfs(3)."""
        kept = sum(mount for known, mount in _KEPT_FLAGS.items() if flags & known)
        self._mount(None, path, None, _REMOUNT | _BIND | _READ_ONLY | kept)

    def _mount(self, source: str | None, target: str, kind: str | None, flags: int, options: str | None = None) -> None:
        words = [None if word is None else os.fsencode(word) for word in (source, target, kind, options)]
        if self._libc.mount(words[0], words[1], words[2], ctypes.c_ulong(flags), words[3]) != 0:
            number = ctypes.get_errno()
            raise OSError(
                number, say("{target} cannot be protected: {reason}", target=target, reason=os.strerror(number))
            )

    def _unshare(self) -> bool:
        if os.geteuid() == 0 and self._libc.unshare(_NEWNS) == 0:
            return False
        user, group = os.geteuid(), os.getegid()
        if self._libc.unshare(_NEWNS | _NEWUSER) != 0:
            number = ctypes.get_errno()
            raise OSError(number, say("no namespace: {reason}", reason=os.strerror(number)))
        for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
            with open(f"/proc/self/{name}", "w", encoding="ascii") as stream:
                stream.write(text)
        return True


# A folder that cannot be overlaid (the scratch place lies in it; a user namespace may not look below its mounts) is
# read-only, and what the run may well write to in it is overlaid by itself.

_ST_READ_ONLY = 1


def enter(config: dict[str, Any]) -> None:
    """Unshare and cover. Raises `OSError`.

    `cover`: folders; `mounts`: mount points below them, parents first; `overlays`: whether there are to be any,
    else all is read-only; `scratch`: where `upper` (an empty folder) lies; `known`: folders that the run may
    well write to; `through`: what stays as it is; `caches`: pairs of a folder and an upper folder that outlives
    the run; `root`: whether `/` itself can be written to; `told`: the file for what came of it; `temporary`: the folder
    for temporary files.
    """
    here = os.getcwd()
    covering = _Covering(config)
    covering.run()
    os.chdir(here)  # the working folder as the mounts have it
    told = {"sealed": covering.sealed, "own": covering.mounts.own}
    told |= {"here": os.access(here, os.W_OK), "temporary": os.access(config["temporary"], os.W_OK)}
    with open(str(config["told"]), "w", encoding="utf-8") as stream:
        json.dump(told, stream)


class _Covering:
    def __init__(self, config: dict[str, Any]) -> None:
        self._config = config
        self.mounts = Mounts()
        self.sealed: list[str] = []
        """Folders that could be written to and are read-only now."""
        self._layers = 0
        self._handles: dict[str, str] = {}
        self._scratch = str(config["scratch"])
        self._upper = self._held([str(config["upper"])])[0]  # by its name it will be hidden for a while
        self._below = self._held(config["mounts"])
        self._known = self._held([*config["known"], self._scratch])

    def _held(self, paths: list[str]) -> list[str]:
        """Open what is there before a mount hides it; those that are."""
        for path in paths:
            with suppress(OSError):
                if path not in self._handles:
                    handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
                    self._handles[path] = f"/proc/self/fd/{handle}"
        return [path for path in paths if path in self._handles]

    def run(self) -> None:
        """Everything, in the order in which one hides the other."""
        config = self._config
        through = self._held(config["through"])
        self._held([path for path, _ in config["caches"]])
        for path in config["cover"]:
            self._cover(path)
        self.mounts.bind(self._handles[self._scratch], self._scratch)
        for path in self._roots() if config["overlays"] else []:
            if self._overlay(self._handles[path], path):
                self._restore(path)
        for path, upper in config["caches"]:
            with suppress(OSError):  # covered in any case
                self._share(path, upper)
        for path in through:
            self.mounts.bind(self._handles[path], path)
        if config["root"]:
            self._seal_root()

    def _cover(self, path: str) -> None:
        if inside(self._scratch, path) or not self._overlay(path, path):
            self._seal(path, path)
        self._restore(path)

    def _overlay(self, source: str, path: str) -> bool:
        if not os.path.isdir(source) or not self._config["overlays"]:
            return False
        upper = self._layer(path)
        try:
            self.mounts.overlay(source, path, upper, f"{os.path.dirname(upper)}/work")
        except OSError:
            return False
        return True

    def _restore(self, path: str) -> None:
        """File systems below a folder that something hides now, parents first."""
        for mount in self._below:
            if inside(mount, path) and not self._overlay(self._handles[mount], mount):
                self._seal(self._handles[mount], mount)

    def _layer(self, path: str) -> str:
        """A new folder for what is written to a path; beside it one to work in, and the path."""
        self._layers += 1
        folder = f"{self._handles[self._upper]}/{self._layers}"
        for name in ("upper", "work"):
            os.makedirs(f"{folder}/{name}", mode=0o700)
        with open(f"{folder}/path", "w", encoding="utf-8", errors="surrogateescape") as stream:
            stream.write(path)
        return f"{folder}/upper"

    def _seal(self, source: str, path: str) -> None:
        writable, flags = os.access(source, os.W_OK), os.statvfs(source).f_flag
        if flags & _ST_READ_ONLY and source == path:
            return
        self.mounts.bind(source, path)
        if not flags & _ST_READ_ONLY:
            self.mounts.seal(path, flags)
            self.sealed += [path] if writable else []

    def _seal_root(self) -> None:
        """`/` itself and what is covered by nothing. What lives in /run (sockets, locks) stays as it is."""
        flags = os.statvfs("/").f_flag
        with suppress(OSError):
            if os.path.isdir("/run") and not os.path.ismount("/run"):
                self.mounts.bind("/run", "/run")
            self.mounts.seal("/", flags)
            self.sealed.append("/")

    def _roots(self) -> list[str]:
        """Known folders that need an overlay of their own, each as far up as it is the user's own.

        An overlay in a user namespace copies no folder of another user or group, so it begins where those end.
        """
        found: set[str] = set()
        for path in self._known:
            if path == self._scratch or not os.path.isdir(path) or inside(self._scratch, path):
                continue
            if self.mounts.own:
                folder = path
                while _is_ours(os.path.dirname(folder)) and not inside(self._scratch, os.path.dirname(folder)):
                    folder = os.path.dirname(folder)
                found.update((folder, path) if not _is_ours(path) else (folder,))
            elif any(inside(path, sealed) for sealed in self.sealed):
                found.add(path)
        return sorted(self._held(sorted(found - set(self._config["cover"]))), key=lambda item: item.count("/"))

    def _share(self, path: str, upper: str) -> None:
        """A cache: what the runs put there, later ones find."""
        if any(inside(mount, path) for mount in self._below):
            return
        for name in ("upper", "work", "empty"):
            os.makedirs(f"{upper}/{name}", mode=0o700, exist_ok=True)
        os.makedirs(path, exist_ok=True)
        source = self._handles.get(path, f"{upper}/empty")
        self.mounts.overlay(source, path, f"{upper}/upper", f"{upper}/work")


def inside(path: str, folder: str) -> bool:
    """Whether it lies below the folder."""
    return path.startswith(folder.rstrip("/") + "/")


def _is_ours(path: str) -> bool:
    status = os.stat(path)
    return (status.st_uid, status.st_gid) == (os.geteuid(), os.getegid())
