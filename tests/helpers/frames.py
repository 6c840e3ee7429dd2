"""Reads files of frames, for tests of who writes them: small and strict, independent of the reader."""

import json
import struct
import zlib
from array import array
from pathlib import Path

MAGIC = b"GPUDOC1\n"


def read_frames(path: Path) -> tuple[list[tuple[str, bytes]], int]:
    """(kind, payload) of every whole frame, and the bytes that were left."""
    data = path.read_bytes()
    assert data[:8] == MAGIC[: len(data)]
    frames, at = [], min(8, len(data))
    while at + 9 <= len(data):
        kind, size, crc = struct.unpack_from("<cII", data, at)
        payload = data[at + 9 : at + 9 + size]
        if len(payload) < size or zlib.crc32(payload) != crc:
            break
        frames.append((kind.decode(), payload))
        at += 9 + size
    return frames, len(data) - at


class Told:
    """What one process wrote."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.records: list[dict] = []
        self.columns: dict[str, list[float]] = {}
        frames, self.left = read_frames(path)
        for kind, payload in frames:
            if kind == "J":
                self.records.append(json.loads(payload))
            else:
                self._block(payload)

    def _block(self, payload: bytes) -> None:
        head, _, rest = payload.partition(b"\n")
        facts = json.loads(head)
        at = 0
        for name, code in facts["columns"]:
            values = array(code)
            size = facts["n"] * values.itemsize
            values.frombytes(rest[at : at + size])
            at += size
            self.columns.setdefault(f"{facts['table']}.{name}", []).extend(values)
        assert at == len(rest)

    def of(self, type: str) -> list[dict]:
        return [record for record in self.records if record["type"] == type]

    def one(self, type: str) -> dict:
        (record,) = self.of(type)
        return record

    def steps(self, name: str) -> list[float]:
        return self.columns.get(f"steps.{name}", [])


def told(folder: Path, kind: str = "rank") -> list[Told]:
    """What the processes of a kind wrote into a folder."""
    return [Told(path) for path in sorted(folder.glob(f"{kind}-*.gdr"))]
