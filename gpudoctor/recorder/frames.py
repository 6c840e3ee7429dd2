"""Files of frames (docs/recording.md), written: JSON records and blocks of columns, each in one `write`."""

import json
import os
import struct
import zlib
from array import array
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

MAGIC = b"GPUDOC1\n"
HEAD = struct.Struct("<cII")
"""Kind, length of the payload, its CRC-32."""
JSON, COLUMNS = b"J", b"C"


def frame(kind: bytes, payload: bytes) -> bytes:
    """One frame, ready to be appended."""
    return HEAD.pack(kind, len(payload), zlib.crc32(payload)) + payload


def json_frame(type: str, t: float, fields: Mapping[str, Any]) -> bytes:
    """A JSON record."""
    record = {"type": type, "t": round(t, 6), **fields}
    return frame(JSON, json.dumps(record, separators=(",", ":"), default=str).encode())


def columns_frame(table: str, columns: Mapping[str, Sequence[float]], codes: Mapping[str, str]) -> bytes:
    """A block of columns; `codes` says the type of each (docs/recording.md), float64 where it says none."""
    rows = len(next(iter(columns.values()), ()))
    listed = [[name, codes.get(name, "d")] for name in columns]
    head = json.dumps({"table": table, "n": rows, "columns": listed}, separators=(",", ":"))
    packed = [head.encode() + b"\n"]
    for name, values in columns.items():
        code = codes.get(name, "d")
        packed.append(struct.pack(f"<{rows}{code}", *values) if code not in "fd" else _floats(code, values))
    return frame(COLUMNS, b"".join(packed))


def _floats(code: str, values: Sequence[float]) -> bytes:
    column = array(code, values)
    if struct.pack("=H", 1) != struct.pack("<H", 1):  # a big-endian machine
        column.byteswap()
    return column.tobytes()


class FrameWriter:
    """A file of frames that is only ever appended to. Raises `OSError` like any file."""

    def __init__(self, path: Path) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_CLOEXEC", 0)
        self._handle = os.open(path, flags, 0o600)
        self.bytes = 0
        self.append(MAGIC)

    def append(self, data: bytes) -> None:
        """Append one frame; what a full disk cut short is taken back, so that later frames can be read."""
        written = os.write(self._handle, data)
        if written < len(data):
            os.ftruncate(self._handle, self.bytes)
            raise OSError(28, os.strerror(28))
        self.bytes += written

    def close(self) -> None:
        """Close it; nothing is buffered."""
        os.close(self._handle)
