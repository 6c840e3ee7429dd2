"""Runs a command in a mount namespace of its own: what it writes lands in a scratch place, the files stay.

    python -I -S jail.py CONFIG COMMAND...

A program apart: standard library only, imports nothing of ours, becomes the command. CONFIG is a JSON file:
`protect` (folders), `mounts` (file systems below them), `through` (folders that stay as they are), `upper`
(an empty folder that is in none of them). Exit code 97: it could not be done, the reason is on standard
error.
"""

import ctypes
import json
import os
import signal
import sys
from contextlib import suppress

CANNOT = 97
_NEWNS, _NEWUSER = 0x00020000, 0x10000000
_PARENT_DEATH = 1
_BIND, _REC, _PRIVATE = 4096, 16384, 1 << 18


def main() -> None:
    """Unshare, mount, become the command."""
    with open(sys.argv[1], encoding="utf-8") as stream:
        config = json.load(stream)
    try:
        _protect(config)
    except OSError as error:
        sys.stderr.write(f"gpudoctor: {error}\n")
        os._exit(CANNOT)
    try:
        os.execvp(sys.argv[2], sys.argv[2:])
    except FileNotFoundError:
        sys.stderr.write(f"gpudoctor: {sys.argv[2]}: command not found\n")
        os._exit(127)
    except OSError as error:
        sys.stderr.write(f"gpudoctor: {sys.argv[2]}: {error}\n")
        os._exit(126)


def _protect(config: dict[str, object]) -> None:
    here = os.getcwd()
    libc = ctypes.CDLL(None, use_errno=True)
    parent = os.getppid()
    own = _unshare(libc)
    libc.prctl(_PARENT_DEATH, int(signal.SIGKILL), 0, 0, 0)  # a new user namespace has cleared it
    if os.getppid() != parent:
        os._exit(CANNOT)
    _mount(libc, None, "/", None, _REC | _PRIVATE, None)
    upper = str(config["upper"])
    protect, below = _texts(config["protect"]), _texts(config["mounts"])
    through = [path for path in _texts(config["through"]) if os.path.exists(path)]
    # Everything is opened before the first mount hides it.
    handles = {path: os.open(path, os.O_PATH) for path in {*protect, *below, *through}}
    for number, path in enumerate(sorted({*protect, *below}, key=lambda item: item.count("/"))):
        source = f"/proc/self/fd/{handles[path]}"
        layers = [f"{upper}/{number}/{name}" for name in ("upper", "work")]
        for layer in layers:
            os.makedirs(layer, mode=0o700)
        with open(f"{upper}/{number}/path", "w", encoding="utf-8") as stream:
            stream.write(path)
        options = f"lowerdir={source},upperdir={layers[0]},workdir={layers[1]}" + (",userxattr" if own else "")
        try:
            _copy_mode(source, layers[0])
            _mount(libc, "overlay", path, "overlay", 0, options)
        except OSError:
            if path in protect:
                raise
            _mount(libc, source, path, None, _BIND | _REC, None)  # a file system that cannot be overlaid
    for path in through:
        _mount(libc, f"/proc/self/fd/{handles[path]}", path, None, _BIND | _REC, None)
    for handle in handles.values():
        os.close(handle)
    os.chdir(here)  # the working folder as the mounts have it


def _unshare(libc: ctypes.CDLL) -> bool:
    """A mount namespace; whether it took a user namespace to get it."""
    if os.geteuid() == 0 and libc.unshare(_NEWNS) == 0:
        return False
    user, group = os.geteuid(), os.getegid()
    if libc.unshare(_NEWNS | _NEWUSER) != 0:
        raise OSError(ctypes.get_errno(), f"no namespace: {os.strerror(ctypes.get_errno())}")
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", f"{user} {user} 1"),
        ("gid_map", f"{group} {group} 1"),
    ):
        with open(f"/proc/self/{name}", "w", encoding="ascii") as stream:
            stream.write(text)
    return True


def _copy_mode(source: str, layer: str) -> None:
    """The upper layer's root stands for the folder: it has its mode and, where we may, its owner."""
    status = os.stat(source)
    os.chmod(layer, status.st_mode & 0o7777)
    with suppress(OSError):
        os.chown(layer, status.st_uid, status.st_gid)


def _mount(
    libc: ctypes.CDLL, source: str | None, target: str, kind: str | None, flags: int, options: str | None
) -> None:
    words = [None if word is None else os.fsencode(word) for word in (source, target, kind, options)]
    if libc.mount(words[0], words[1], words[2], ctypes.c_ulong(flags), words[3]) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{target} cannot be protected: {os.strerror(number)}")


def _texts(value: object) -> list[str]:
    return [str(item) for item in value] if isinstance(value, list) else []


if __name__ == "__main__":
    main()
