"""Files of frames (docs/recording.md), written and read: JSON records and blocks of columns."""

from __future__ import annotations

import json
import os
import struct
import sys
import zlib
from array import array
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

MAGIC = b"GPUDOC1\n"
JSON, COLUMNS = b"J", b"C"
_HEAD = struct.Struct("<cII")
"""Kind, length of the payload, its CRC-32."""

WIDTHS = {"I": 4, "Q": 8, "f": 4, "d": 8, "H": 2, "B": 1}
"""Bytes of a value by its type code."""
_NATIVE = {code: next(c for c in (code, "L") if array(c).itemsize == width) for code, width in WIDTHS.items()}
"""The array type of the same width on this machine (`I` is 4 bytes wherever CPython runs today)."""

Column = tuple[str, str]
"""Name and type code."""
Values = Sequence[float]


def private(path: str, flags: int) -> int:
    """An `opener` for files of a recording: nobody else may read them, whatever the umask."""
    return os.open(path, flags, 0o600)


# writing


def frame(kind: bytes, payload: bytes) -> bytes:
    """One frame, ready to be appended."""
    return _HEAD.pack(kind, len(payload), zlib.crc32(payload)) + payload


def json_text(type: str, t: float, fields: Mapping[str, Any]) -> str:
    """The text of a JSON record."""
    return json.dumps({"type": type, "t": round(t, 6), **fields}, separators=(",", ":"), default=str)


def json_frame(text: str) -> bytes:
    """The frame of a JSON record's text."""
    return frame(JSON, text.encode("utf-8", "backslashreplace"))


def columns_frame(table: str, columns: Sequence[Column], values: Sequence[Values]) -> bytes:
    """A block of columns; `values` has one sequence a column, all equally long."""
    listed = [[name, code] for name, code in columns]
    head = json.dumps({"table": table, "n": len(values[0]), "columns": listed}, separators=(",", ":"))
    parts = [head.encode() + b"\n"]
    for (_, code), column in zip(columns, values):
        packed = array(_NATIVE[code], column if code in "fd" else map(int, column))
        if sys.byteorder == "big":
            packed.byteswap()
        parts.append(packed.tobytes())
    return frame(COLUMNS, b"".join(parts))


class FrameWriter:
    """A file of frames, only ever appended to, one `write` a frame. Raises `OSError` like any file."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
        self._handle = private(os.fspath(path), flags)
        try:
            self.bytes = os.fstat(self._handle).st_size
            if self.bytes == 0:
                self.append(MAGIC)
        except OSError:
            self.close()
            raise

    def append(self, data: bytes) -> None:
        """Append one frame; what a full disk cut short is taken back, so that later frames can be read."""
        written = os.write(self._handle, data)
        if written < len(data):
            os.ftruncate(self._handle, self.bytes)
            raise OSError(28, "No space left on device")
        self.bytes += written

    def close(self) -> None:
        """Close it; nothing is buffered."""
        os.close(self._handle)


# reading


class ForeignFile(Exception):
    """The file is not one of ours."""


class Frames:
    """The frames of one file's bytes; iterate once, then look at `lost`."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.lost = 0
        """Bytes from the first frame that was cut short or whose sum was wrong to the end."""

    def __iter__(self) -> Iterator[tuple[bytes, memoryview]]:
        """Kind and payload of each frame, in order; raises `ForeignFile` where the file does not start as ours.

        A file that was cut within its first eight bytes is ours and has lost them.
        """
        data = self.data
        if not data.startswith(MAGIC):
            if not MAGIC.startswith(data):
                raise ForeignFile
            self.lost = len(data)
            return
        view = memoryview(data)
        position, end = len(MAGIC), len(data)
        while position < end:
            start = position + _HEAD.size
            if start > end:
                break
            kind, length, checksum = _HEAD.unpack_from(data, position)
            payload = view[start : start + length]
            if len(payload) < length or zlib.crc32(payload) != checksum:
                break
            position = start + length
            yield kind, payload
        self.lost = end - position


def unpacked(codes: Sequence[str], rows: int, data: memoryview) -> list[array[Any]]:
    """The columns of a block's values; raises `ValueError` where they are not as long as the block."""
    if rows * sum(WIDTHS[code] for code in codes) != len(data):
        raise ValueError("a block of another length than its header says")
    columns, position = [], 0
    for code in codes:
        column = array(_NATIVE[code])
        end = position + rows * WIDTHS[code]
        column.frombytes(data[position:end])
        if sys.byteorder == "big":
            column.byteswap()
        columns.append(column)
        position = end
    return columns
