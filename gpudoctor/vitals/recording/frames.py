"""Files of frames (docs/recording.md), read: what stands before the first frame that cannot be read."""

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

MAGIC = b"GPUDOC1\n"
JSON, COLUMNS = b"J", b"C"
_HEAD = struct.Struct("<cII")


class ForeignFile(Exception):
    """The file is not one of ours."""


@dataclass(slots=True)
class Frames:
    """The frames of one file's bytes; iterate once, then look at `lost`."""

    data: bytes
    lost: int = 0
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
