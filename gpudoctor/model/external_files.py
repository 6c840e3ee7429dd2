"""The one reader of files from outside: a regular file, opened without blocking, at most so many bytes.

A pipe, a device or a socket is never read: it may block for ever or never end. Whatever is wrong is an
`OSError` with a reason in `strerror`, so that a caller has one thing to catch; `RefusedFile` is one of ours.
"""

import errno
import gzip
import json
import os
import stat
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any, NoReturn

from gpudoctor.lang import say
from gpudoctor.model.read_limits import JSON_DEPTH, UNPACKED_RATIO, UNPACKED_START, ReadLimit

_KINDS = (
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISDIR, "a folder"),
)


class RefusedFile(OSError):
    """A file that is not read: no regular file, or beyond its budget. `strerror` says why."""

    def __init__(self, reason: str) -> None:
        super().__init__(errno.EINVAL, reason)

    def __str__(self) -> str:
        return self.strerror or ""


class Damaged(RefusedFile):
    """What gzip has packed and cannot be unpacked to its end."""


def open_file(path: str | os.PathLike[str]) -> IO[bytes]:
    """A regular file, open for reading. Raises `OSError`."""
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
    try:
        handle = os.open(path, flags | getattr(os, "O_NOCTTY", 0))
    except ValueError as error:  # a NUL byte in the path, a name that the system's encoding lacks
        raise RefusedFile(str(error)) from error
    except OSError as error:
        if error.errno == errno.ENXIO:  # a socket, a device that is not there
            raise RefusedFile("it is not a regular file") from error
        raise
    try:
        mode = os.fstat(handle).st_mode
        if not stat.S_ISREG(mode):
            kind = next((name for test, name in _KINDS if test(mode)), "something else")
            raise RefusedFile(say("it is {kind}, no regular file", kind=kind))
        return os.fdopen(handle, "rb")
    except BaseException:
        os.close(handle)
        raise


def read_file(path: str | os.PathLike[str], limit: ReadLimit) -> bytes:
    """All bytes of a regular file. Raises `OSError`, for one beyond its budget too."""
    with open_file(path) as stream:
        if os.fstat(stream.fileno()).st_size > limit.most:
            raise RefusedFile(say("it is {words}", words=limit.words))
        data = stream.read(limit.most + 1)  # it may have grown, or have no size (/proc)
        if data is None:  # such as /proc/kmsg, which would have us wait
            raise RefusedFile("it is empty yet")
    if len(data) > limit.most:
        raise RefusedFile(say("it is {words}", words=limit.words))
    return data


def read_head(path: str | os.PathLike[str], size: int) -> bytes:
    """The first bytes of a regular file, however large it is. Raises `OSError`."""
    with open_file(path) as stream:
        return stream.read(size) or b""


def read_text(path: str | os.PathLike[str], limit: ReadLimit, errors: str = "strict") -> str:
    """The text of a regular file in UTF-8. Raises `OSError`; `UnicodeDecodeError` unless `errors` says else."""
    return read_file(path, limit).decode("utf-8", errors)


def unpacked_most(packed: int, limit: ReadLimit) -> int:
    """Bytes that so many packed bytes may unpack to: a bomb has a thousand times its size."""
    return min(limit.most, UNPACKED_START + UNPACKED_RATIO * packed)


def is_packed(path: str | os.PathLike[str]) -> bool:
    """Whether a file is packed by gzip, by its first bytes. Raises `OSError`."""
    return read_head(path, 2) == b"\x1f\x8b"


@contextmanager
def open_unpacked(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """A regular file, unpacked where gzip has packed it. Damage inside raises `RefusedFile` like all else."""
    packed = is_packed(path)
    with open_file(path) as stream:
        try:
            if packed:
                with gzip.GzipFile(fileobj=stream, mode="rb") as inner:
                    yield inner  # type: ignore[misc]  # it reads like one
            else:
                yield stream
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise Damaged(say("its packing is damaged: {error}", error=error)) from error


def load_json(text: str | bytes) -> Any:
    """JSON from outside. Raises `ValueError` for everything that it is not, nesting included."""
    try:
        value = json.loads(text)
    except RecursionError:
        _too_deep()
    if deeper(value, JSON_DEPTH.most):
        _too_deep()
    return value


def _too_deep() -> NoReturn:
    raise ValueError(say("it nests deeper than {most} levels", most=JSON_DEPTH.most))


def deeper(value: Any, most: int) -> bool:
    """Whether a value nests deeper than so many levels."""
    level = [value]
    for _ in range(most):
        level = [
            item
            for outer in level
            for item in (outer.values() if isinstance(outer, dict) else outer if isinstance(outer, list) else ())
            if isinstance(item, dict | list)
        ]
        if not level:
            return False
    return bool(level)
