"""Opens a log: a regular file, plain or packed by gzip, xz or zstd, or the standard input; blocks of bytes."""

import codecs
import gzip
import lzma
import shlex
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import IO, Any

from gpudoctor.model.external_files import Damaged, RefusedFile, open_file, read_head

STANDARD_INPUT = "-"
_PIECE = 1 << 20
_LONGEST = 4 << 20
"""Bytes without any line end that are read at once; what goes beyond is another piece of the same line."""
_HEAD = 65_536
_CONTROL = bytes({*range(9), *range(14, 27), *range(28, 32)})
_MOST_CONTROL = 0.05
"""Share of control characters, colours and line ends apart, above which a file is no text."""
_GZIP, _XZ, _ZSTD = b"\x1f\x8b", b"\xfd7zXZ\x00", b"\x28\xb5\x2f\xfd"


@dataclass(frozen=True, slots=True)
class Block:
    """Whole lines; only the last may lack its end."""

    data: bytes
    """In UTF-8, or in bytes of another encoding that `text_of` knows."""
    first_line: int
    """1-based number of its first line."""


def blocks(stream: IO[bytes]) -> Iterator[Block]:
    """The stream in blocks of about a MiB. UTF-16 is read by its mark."""
    number, rest = 1, b""
    wide: Any = None
    begun = False
    while piece := _read(stream):
        if not begun:
            begun = True
            if piece[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
                wide = codecs.getincrementaldecoder("utf-16")("replace")
            piece = piece.removeprefix(codecs.BOM_UTF8)
        if wide is not None:
            piece = wide.decode(piece).encode("utf-8", "replace")
        data = rest + piece
        cut = data.rfind(b"\n") + 1 or data.rfind(b"\r") + 1
        if not cut:
            if len(data) < _LONGEST:
                rest = data
                continue
            cut = len(data)
        yield Block(data[:cut], number)
        number += data.count(b"\n", 0, cut)
        rest = data[cut:]
    if rest:
        yield Block(rest, number)


def is_binary(data: bytes) -> bool:
    """Whether the first bytes of a file are not those of a text in any encoding: many control characters."""
    head = data[:_HEAD]
    control = len(head) - len(head.translate(None, _CONTROL))
    return control > len(head) * _MOST_CONTROL


def _read(stream: IO[bytes]) -> bytes:
    reader = getattr(stream, "read1", stream.read)
    piece: bytes = reader(_PIECE) or b""
    return piece


def text_of(raw: bytes) -> str:
    """Bytes of a line as text: UTF-8, else GB 18030 (which holds GBK), else whatever can be read of it."""
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        pass
    try:
        return raw.decode("gb18030")
    except UnicodeDecodeError:
        return raw.decode("utf-8", "replace")


@contextmanager
def open_log(path: str) -> Iterator[IO[bytes]]:
    """The log's bytes, unpacked. Raises `OSError`; damage inside a packed file is `Damaged`."""
    if path == STANDARD_INPUT:
        yield sys.stdin.buffer
        return
    head = read_head(path, 6)
    with open_file(path) as stream:
        try:
            if head.startswith(_GZIP):
                with gzip.GzipFile(fileobj=stream) as inner:
                    yield inner  # type: ignore[misc]  # it reads like one
            elif head.startswith(_XZ):
                with lzma.LZMAFile(stream) as packed:
                    yield packed
            elif head.startswith(_ZSTD):
                with _zstd(stream, path) as unpacked:
                    yield unpacked
            else:
                yield stream
        except (EOFError, zlib.error, gzip.BadGzipFile, lzma.LZMAError) as error:
            raise Damaged(f"its packing is damaged: {error}") from error
        except Exception as error:
            if type(error).__name__ == "ZstdError":  # of either module
                raise Damaged(f"its packing is damaged: {error}") from error
            raise


def _zstd(stream: IO[bytes], path: str) -> Any:
    """A reader of zstd: Python's own since 3.14, else the package `zstandard`."""
    for module, name in (("compression.zstd", "ZstdFile"), ("zstandard", "open")):
        try:
            return getattr(import_module(module), name)(stream)
        except ImportError:
            continue
    raise RefusedFile(
        "it is packed by zstd, which this Python cannot unpack; install zstandard (pip install zstandard), "
        f"or unpack it: zstd -dc {shlex.quote(path)} | gpudoctor autopsy -"
    )
