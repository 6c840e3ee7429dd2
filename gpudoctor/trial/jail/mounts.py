"""The kernel's side: a mount namespace, overlays, binds. Standard library only."""

import ctypes
import os
import signal
import stat
from contextlib import suppress

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
        copy_mode(source, upper)
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

    def _mount(
        self, source: str | None, target: str, kind: str | None, flags: int, options: str | None = None
    ) -> None:
        words = [None if word is None else os.fsencode(word) for word in (source, target, kind, options)]
        if self._libc.mount(words[0], words[1], words[2], ctypes.c_ulong(flags), words[3]) != 0:
            number = ctypes.get_errno()
            raise OSError(number, f"{target} cannot be protected: {os.strerror(number)}")

    def _unshare(self) -> bool:
        if os.geteuid() == 0 and self._libc.unshare(_NEWNS) == 0:
            return False
        user, group = os.geteuid(), os.getegid()
        if self._libc.unshare(_NEWNS | _NEWUSER) != 0:
            number = ctypes.get_errno()
            raise OSError(number, f"no namespace: {os.strerror(number)}")
        for name, text in (
            ("setgroups", "deny"),
            ("uid_map", f"{user} {user} 1"),
            ("gid_map", f"{group} {group} 1"),
        ):
            with open(f"/proc/self/{name}", "w", encoding="ascii") as stream:
                stream.write(text)
        return True


def copy_mode(source: str, target: str) -> None:
    """The mode and, where we may, the owner: what stands for a folder looks like it."""
    status = os.stat(source)
    os.chmod(target, stat.S_IMODE(status.st_mode))
    with suppress(OSError):
        os.chown(target, status.st_uid, status.st_gid)
