"""The wire format of protocol buffers, without their library: that one asks for a release of its own.

The messages of a trace are read in the environment of a training, where `protobuf` often is an older release
than the generated classes of Perfetto need (6.31). Format: protobuf.dev/programming-guides/encoding.
"""

from collections.abc import Iterator
from typing import IO

from gpudoctor.lang import say

Value = int | bytes
"""Of a field: a number (varint), or bytes (a string, a message, a fixed number)."""
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_LONGEST = 10
"""Bytes of a varint of 64 bits."""


def fields(message: bytes) -> Iterator[tuple[int, Value]]:
    """Number and value of every field, in the order of the message. Raises `ValueError` for what is none."""
    at, size = 0, len(message)
    while at < size:
        key, at = _varint(message, at)
        kind = key & 7
        if kind == _VARINT:
            value: Value
            value, at = _varint(message, at)
        else:
            if kind == _BYTES:
                length, at = _varint(message, at)
            elif kind in (_FIXED64, _FIXED32):
                length = 8 if kind == _FIXED64 else 4
            else:
                raise ValueError(say("a field of the unknown kind {kind}", kind=kind))
            if at + length > size:
                raise ValueError("a field is longer than its message")
            value = message[at : at + length]
            at += length
        if not key >> 3:
            raise ValueError("a field has the number 0")
        yield key >> 3, value


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(data) or shift >= 7 * _LONGEST:
            raise ValueError("a number has no end")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def delimited(stream: IO[bytes], most: int) -> Iterator[tuple[int, bytes]]:
    """Number and bytes of every message of a stream that holds nothing else.

    Raises `ValueError` for what is none, for an end inside of a message, and for one longer than `most` bytes.
    """
    while first := stream.read(1):
        key = _stream_varint(stream, first)
        if key & 7 != _BYTES or not key >> 3:
            raise ValueError("something else than a message")
        length = _stream_varint(stream, stream.read(1))
        if length > most:
            raise ValueError(say("a message of {length:,} bytes", length=length))
        message = stream.read(length)
        if len(message) < length:
            raise ValueError("it ends inside of a message")
        yield key >> 3, message


def _stream_varint(stream: IO[bytes], head: bytes) -> int:
    data = head
    while data and data[-1] >= 0x80 and len(data) < _LONGEST:
        more = stream.read(1)
        if not more:
            break
        data += more
    return _varint(data, 0)[0]


def signed(value: int) -> int:
    """An `int32` or `int64` of the wire, where a negative number is a large one."""
    return value - (1 << 64) if value >= 1 << 63 else value
