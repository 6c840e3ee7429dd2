"""Files of frames, written: JSON records and blocks of columns (docs/recording.md). Needs no torch."""

from __future__ import annotations

import json
import os
import struct
import sys
import threading
import zlib
from array import array
from collections.abc import Sequence
from typing import Any

from .masking import mask_tokens

MAGIC = b"GPUDOC1\n"
HEAD = struct.Struct("<cII")
"""Kind, length of the payload, its CRC-32."""

LIMITS = {
    "start": 1, "torch": 4, "loop": 8, "model": 16, "optimizer": 16, "loader": 32, "site": 4096,
    "lines": 4096, "numeric": 512, "memory": 512, "compile": 256, "window": 256, "heartbeat": 4096,
    "worker": 64, "lost": 128, "exception": 4, "signal": 8, "end": 1, "items": 4096,
}  # fmt: skip
"""Records of one type in one file."""


def private(path: str, flags: int) -> int:
    """An `opener` for files of a recording: nobody else may read them, whatever the umask."""
    return os.open(path, flags, 0o600)


def frame(kind: bytes, payload: bytes) -> bytes:
    """One frame, ready to be appended."""
    return HEAD.pack(kind, len(payload), zlib.crc32(payload)) + payload


Column = tuple[str, str]
"""Name and type code."""


def columns_payload(table: str, columns: Sequence[Column], values: Sequence[Sequence[float]]) -> bytes:
    """A block: `values` one sequence a column, all equally long."""
    listed = [[name, code] for name, code in columns]
    head = json.dumps({"table": table, "n": len(values[0]), "columns": listed}, separators=(",", ":"))
    parts = [head.encode() + b"\n"]
    for (_, code), column in zip(columns, values):
        packed = array(code, column if code in "fd" else map(int, column))
        if sys.byteorder == "big":
            packed.byteswap()
        parts.append(packed.tobytes())
    return b"".join(parts)


class FrameFile:
    """A file of frames, only ever appended to, one `write` a frame.

    A disk that is full or gone ends the writing, never the training: `broken` says why, and what a full
    disk cut short is taken back. After a fork the child has no file (`forget`).
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.broken = ""
        self.dropped: dict[str, int] = {}
        self._counts: dict[str, int] = {}
        self._bytes = 0
        self._handle = -1
        self._lock = threading.RLock()
        self._named_by_secret = any(mask_tokens(place) != place for place in sys.path[:20])
        """Whether a folder of the program is named by a credential, which then is in every path of it."""

    def close(self) -> None:
        """Close it; nothing is buffered. A forked child closes its parent's so, without taking the lock."""
        handle, self._handle = self._handle, -1
        self.broken = "closed"
        if handle >= 0:
            os.close(handle)

    def record(self, type: str, t: float, fields: dict[str, Any]) -> None:
        """Append a JSON record, as long as its type has room."""
        count = self._counts.get(type, 0)
        if count >= LIMITS.get(type, 256):
            self.dropped[type] = self.dropped.get(type, 0) + 1
            return
        self._counts[type] = count + 1
        text = json.dumps({"type": type, "t": round(t, 6), **fields}, separators=(",", ":"), default=str)
        if self._named_by_secret:
            text = mask_tokens(text)
        self._append(frame(b"J", text.encode("utf-8", "backslashreplace")))

    def room(self, type: str) -> int:
        """How many records of a type may still be written."""
        return LIMITS.get(type, 256) - self._counts.get(type, 0)

    def columns(self, table: str, columns: Sequence[Column], values: Sequence[Sequence[float]]) -> None:
        """Append a block of columns."""
        self._append(frame(b"C", columns_payload(table, columns, values)))

    def _append(self, data: bytes) -> None:
        with self._lock:
            if self.broken:
                return
            try:
                if self._handle < 0:
                    self._open()
                self._write(data)
            except OSError as error:
                self.broken = str(error)

    def _open(self) -> None:
        flags = (
            os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
        )
        self._handle = os.open(self.path, flags, 0o600)
        self._bytes = os.fstat(self._handle).st_size
        if self._bytes == 0:
            self._write(MAGIC)

    def _write(self, data: bytes) -> None:
        written = os.write(self._handle, data)
        if written < len(data):
            os.ftruncate(self._handle, self._bytes)
            raise OSError(28, "No space left on device")
        self._bytes += written
