"""A recording as an event file of TensorBoard: step time, phases, loss and memory by step.

The format needs no library: records of TFRecord (length, data, and masked CRC-32C of both) that hold protocol
buffers of tensorflow/core/util/event.proto. It can be read beside the user's own event files.
"""

import math
import struct
from collections.abc import Iterator

from gpudoctor.analysis.run.steady_state import OTHER, counts
from gpudoctor.model.signs.recording import PHASES, Process, Recording

POINTS = 1000
"""Events at most; a longer run has means of neighbouring steps."""
_PLAIN = {"loss": "loss", "grad_norm": "gradient_norm", "lr": "learning_rate", "scale": "loss_scale",
          "peak": "memory/device_peak_bytes", "rss": "memory/rss_bytes"}  # fmt: skip


def event_file(recording: Recording) -> bytes:
    """The bytes of an event file; of the first rank that made steps."""
    process = next((each for each in recording.ranks if len(each.steps)), None)
    wall = process.wall if process else 0.0
    parts = [_record(_double(1, wall) + _text(3, "brain.Event:2"))]
    if process is not None:
        parts += [_record(event) for event in _events(process)]
    return b"".join(parts)


def _events(process: Process) -> Iterator[bytes]:
    table = process.steps
    every, durations = counts(process), table.column("duration")
    known = {name: table.column(name) for name in (*PHASES, *_PLAIN) if len(table.column(name))}
    rows = min(POINTS, len(table))
    for number in range(rows):
        a, b = number * len(table) // rows, (number + 1) * len(table) // rows
        seconds = math.fsum(durations[a:b])
        values = {"step_seconds": seconds / sum(every[a:b])}
        shares = {name: math.fsum(known[name][a:b]) / max(seconds, 1e-12) for name in PHASES if name in known}
        values |= {f"phase/{name}": share for name, share in shares.items()}
        values[f"phase/{OTHER}"] = max(0.0, 1.0 - sum(shares.values()))
        for name, tag in _PLAIN.items():
            finite = [value for value in known.get(name, ())[a:b] if math.isfinite(value)]
            if finite:
                values[tag] = sum(finite) / len(finite)
        summary = b"".join(_bytes(1, _text(1, f"gpudoctor/{tag}") + _float(2, value)) for tag, value in values.items())
        step = int(table.column("index")[b - 1])
        yield _double(1, process.wall + table.column("t")[b - 1]) + (_key(2, 0) + _number(step)) + _bytes(5, summary)


def _record(data: bytes) -> bytes:
    length = struct.pack("<Q", len(data))
    return length + struct.pack("<I", _masked(length)) + data + struct.pack("<I", _masked(data))


def _masked(data: bytes) -> int:
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def crc32c(data: bytes) -> int:
    """The CRC of Castagnoli, which the standard library lacks."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ _TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def _row(value: int) -> int:
    for _ in range(8):
        value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
    return value


_TABLE = tuple(map(_row, range(256)))


def _key(field: int, kind: int) -> bytes:
    return _number(field << 3 | kind)


def _number(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)


def _double(field: int, value: float) -> bytes:
    return _key(field, 1) + struct.pack("<d", value)


def _float(field: int, value: float) -> bytes:
    return _key(field, 5) + struct.pack("<f", value)


def _bytes(field: int, value: bytes) -> bytes:
    return _key(field, 2) + _number(len(value)) + value


def _text(field: int, value: str) -> bytes:
    return _bytes(field, value.encode())
