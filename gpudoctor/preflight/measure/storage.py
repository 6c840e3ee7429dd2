"""A folder that every node uses at once: is it there, is it the same, can it be written, how fast."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import time
from typing import Any

from gpudoctor.preflight.measure.timing import figure

_CHUNK = 4 << 20


def mark(work: Any, _: Any) -> Any:
    """Write the file that the other nodes shall find, or remove it: `remove`."""
    path = os.path.join(work["folder"], work["name"])
    if work.get("remove"):
        with contextlib.suppress(OSError):
            os.unlink(path)
        return {}
    with open(path, "wb") as stream:
        stream.write(work["content"].encode())
        stream.flush()
        os.fsync(stream.fileno())
    return {}


def examine(work: Any, _: Any) -> Any:
    """What this node sees of the folder, and the speed at which it writes a file of its own and reads it."""
    folder = work["folder"]
    answer: dict[str, Any] = {
        "visible": os.path.isdir(folder),
        "writable": False,
        "same": None,
        "figures": [],
        "failure": "",
    }
    if not answer["visible"]:
        answer["failure"] = "there is no such folder"
        return answer
    if work.get("content"):
        answer["same"] = _same(os.path.join(folder, work["name"]), work["content"])
    own = os.path.join(folder, "{}-{}".format(work["name"], work["index"]))
    try:
        answer["figures"].append(_write(own, work["bytes"]))
        answer["writable"] = True
        answer["figures"].append(_read(own, work["bytes"]))
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        answer["writable"] = full
        answer["failure"] = "{}{}".format("full: " if full else "", error.strerror or error)
    finally:
        with contextlib.suppress(OSError):
            os.unlink(own)
    return answer


def _same(path: Any, content: Any, seconds: Any = 5.0) -> Any:
    """Whether the file that another node wrote is here; network file systems take a moment."""
    end = time.monotonic() + seconds
    while True:
        try:
            with open(path, "rb") as stream:
                return stream.read(4096) == content.encode()
        except OSError:
            if time.monotonic() > end:
                return False
        time.sleep(0.2)


def _write(path: Any, size: Any) -> Any:
    block = hashlib.sha256(path.encode()).digest() * (_CHUNK // 32)
    begin = time.perf_counter()
    with open(path, "wb", buffering=0) as stream:
        left = size
        while left:
            left -= stream.write(block[: min(left, _CHUNK)])
        os.fsync(stream.fileno())
    return figure("write_bandwidth", [time.perf_counter() - begin], float(size), payload=size)


def _read(path: Any, size: Any) -> Any:
    """Read the file again, from the disk where the system forgets what it has cached."""
    begin = time.perf_counter()
    with open(path, "rb", buffering=0) as stream:
        os.posix_fadvise(stream.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        begin = time.perf_counter()
        while stream.read(_CHUNK):
            pass
    return figure("read_bandwidth", [time.perf_counter() - begin], float(size), payload=size)
