"""Landlock: a process forbids itself, and all that it starts, to change files outside some folders.

The kernel's documentation (userspace-api/landlock) has the calls and what each version of the interface (ABI)
knows. What it does not know stays possible: mode, owner, times and extended attributes of a file, and before
ABI 3 a `truncate` by path.
"""

import ctypes
import os
import struct
from typing import Any

_CREATE, _ADD, _RESTRICT = 444, 445, 446
"""System calls; newer ones have the same numbers on every machine."""
_VERSION = 1
_PATH_BENEATH = 1
_NO_NEW_PRIVILEGES = 38

_WRITE_FILE, _REFER, _TRUNCATE = 1 << 1, 1 << 13, 1 << 14
_REMOVE_AND_MAKE = sum(1 << bit for bit in range(4, 13))
"""remove_dir, remove_file, make_char, make_dir, make_reg, make_sock, make_fifo, make_block, make_sym."""


def enter(config: dict[str, Any]) -> None:
    """Forbid writes but below `writable`; below `devices` what is there may be written to. Raises `OSError`."""
    libc = ctypes.CDLL(None, use_errno=True)
    handled = _handled(_call(libc, _CREATE, None, ctypes.c_size_t(0), _VERSION))
    attributes = struct.pack("=Q", handled)
    ruleset = _call(libc, _CREATE, attributes, ctypes.c_size_t(len(attributes)), 0)
    for paths, rights in ((config["writable"], handled), (config["devices"], handled & (_WRITE_FILE | _TRUNCATE))):
        for path in paths:
            _allow(libc, ruleset, path, rights)
    if libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0) != 0:
        raise _error("no_new_privs")
    _call(libc, _RESTRICT, ruleset, 0)
    os.close(ruleset)


def _handled(version: int) -> int:
    """The rights that this kernel can take away. One that does not know moves between folders refuses them."""
    rights = _WRITE_FILE | _REMOVE_AND_MAKE
    rights |= _REFER if version >= 2 else 0
    return rights | (_TRUNCATE if version >= 3 else 0)


def _allow(libc: ctypes.CDLL, ruleset: int, path: str, rights: int) -> None:
    try:
        handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return  # nothing there to be allowed
    try:
        if not os.path.isdir(path):
            rights &= _WRITE_FILE | _TRUNCATE
        _call(libc, _ADD, ruleset, _PATH_BENEATH, struct.pack("=Qi", rights, handle), 0)
    finally:
        os.close(handle)


def _call(libc: ctypes.CDLL, number: int, *arguments: object) -> int:
    result = libc.syscall(number, *arguments)
    if result < 0:
        raise _error("Landlock")
    return int(result)


def _error(name: str) -> OSError:
    number = ctypes.get_errno()
    return OSError(number, f"{name}: {os.strerror(number)}")
