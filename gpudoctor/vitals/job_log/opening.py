"""Opens a log: a regular file, plain or packed by gzip, xz or zstd, or the standard input; blocks of bytes."""

import codecs
import lzma
import re
import shlex
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import IO, Any, Protocol

from gpudoctor.lang import say
from gpudoctor.model.external_files import Damaged, RefusedFile, open_file
from gpudoctor.model.read_limits import LOG_UNPACKED_RATIO, LOG_UNPACKED_START
from gpudoctor.vitals.job_log.words import bare

STANDARD_INPUT = "-"
BLOCK = 1 << 20
"""Bytes that are read at once. What a log says must not depend on it."""
LONGEST = 16_384
"""Bytes of a piece of text beyond which its middle is left out: programs print whole tensors."""
_HEAD_KEPT, _TAIL_KEPT = 12_288, 4_000
_LEFT_OUT = b" [...] "
_JUDGED = 65_536
"""Bytes by which the encoding of a file is found, and whether it is text."""
_CONTROL = bytes({*range(8), *range(14, 27), *range(28, 32)})
_MOST_CONTROL = 0.05
"""Share of control characters, colours and line ends apart, above which a file is not text."""
_HALF = 0.3
"""Share of zeros at every second byte above which a text is UTF-16 without its mark."""
_HOLE = re.compile(rb"\0{8,}")
"""Zeros that a file system or a cut log leaves between texts."""
_GZIP, _XZ, _ZSTD = b"\x1f\x8b", b"\xfd7zXZ\x00", b"\x28\xb5\x2f\xfd"
_ZSTD_SKIPPED = b"\x2a\x4d\x18"
"""Behind a byte from 0x50 to 0x5f: a frame that a parallel zstd puts before its data."""
_PACKED_PIECE = 65_536
_ZSTD_PIECE = 1024
"""Packed bytes that `zstandard` unpacks at once: each four may become 128 KiB."""
_PACKED_MEMORY = 128 << 20
"""Bytes of memory that an archive may ask of its reader: `xz -9` asks for 65 MiB, `zstd --long` for 128 MiB."""
_ZSTD_WINDOW = 27
"""The same as a power of two."""
_COLOUR = re.compile(rb"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b\r\n]*(?:\x07|\x1b\\)")
_BACKSPACES = re.compile(rb"\x08+")
"""By which a bar of Keras goes back to its beginning, where its output is no terminal."""
_ERASED = re.compile(rb"\r[\r \t]*\r")
_RETURN_AT_BEGINNING = re.compile(rb"\n[ \t]*\r")
_RETURNS_AT_BEGINNING = re.compile(rb"[ \t\r]*\r")


_END_OF_LINE = re.compile(rb"\r+\n")
_CUT_CHARACTER, _REST_OF_CHARACTER = (re.compile(rb"[\xc0-\xff][\x80-\xbf]{0,3}\Z"), re.compile(rb"\A[\x80-\xbf]{1,3}"))


@dataclass(frozen=True, slots=True)
class Block:
    """Pieces of text between line ends and carriage returns; only the last of a file may lack its end.

    It is in UTF-8, or in bytes of another encoding that `text_of` knows; without colours, without zeros, and
    `\\r\\n` is `\\n`. The pieces may be of a line that began in an earlier block.
    """

    data: bytes
    first_line: int
    """1-based number of the line of its first piece."""
    size: int
    """Bytes of the log, unpacked, that it is made of."""

    def pieces(self) -> tuple[list[bytes], list[int]]:
        """The pieces, the middle of long ones left out, and the number of the line of each."""
        data, numbers = self.data, list[int]()
        if b"\r" in data:
            for place, line in enumerate(data.split(b"\n")):
                numbers += [self.first_line + place] * (1 + line.count(b"\r"))
            data = data.replace(b"\r", b"\n")
            pieces = data.split(b"\n")
        else:
            pieces = data.split(b"\n")
            numbers = list(range(self.first_line, self.first_line + len(pieces)))
        if not pieces[-1]:
            pieces.pop()
            numbers.pop()
        if _may_be_longer(data, LONGEST):
            pieces = [_shortened(piece) for piece in pieces]
        return pieces, numbers

    def bares(self, pieces: list[bytes]) -> list[bytes]:
        """Its pieces as `bare` leaves them."""
        if _may_be_longer(self.data, LONGEST):
            return bare(b"\n".join(pieces)).split(b"\n")
        return bare(self.data.replace(b"\r", b"\n").removesuffix(b"\n")).split(b"\n")


def _may_be_longer(data: bytes, most: int) -> bool:
    """Whether a line of a text may have more bytes: such a line fills one of the halves of that size."""
    half = most // 2
    return any(data.find(b"\n", at, at + half) < 0 for at in range(0, len(data) - half, half))


def _shortened(piece: bytes) -> bytes:
    """The piece without the middle of a long one, cut between characters."""
    if len(piece) <= LONGEST:
        return piece
    head, tail = piece[:_HEAD_KEPT], piece[-_TAIL_KEPT:]
    return _CUT_CHARACTER.sub(b"", head) + _LEFT_OUT + _REST_OF_CHARACTER.sub(b"", tail)


def blocks(stream: IO[bytes]) -> Iterator[Block]:
    """The stream in blocks of about a MiB. Raises `RefusedFile` for what is not text.

    What was read before the stream fails is given before its error is raised.
    """
    number, rest, taken = 1, b"", 0
    decoder: Any = None
    judged = False
    failed: OSError | None = None
    source = _pieces(stream)
    while True:
        try:
            piece = next(source, b"")
        except OSError as error:
            failed, piece = error, b""
        if not piece:
            break
        if not judged and (head := _HOLE.sub(b"", piece[:_JUDGED])):
            judged = True
            decoder = _wide_decoder(piece[:_JUDGED])
            if decoder is None and is_binary(head):
                raise RefusedFile("it is not text")
            piece = piece.removeprefix(codecs.BOM_UTF8)
        for start in range(0, len(piece), BLOCK):
            part = piece[start : start + BLOCK]
            taken += len(part)
            if decoder is not None:
                part = decoder.decode(part).encode("utf-8", "replace")
            data = _ends_made_alike(rest + part.replace(b"\0", b"\r"))
            # A carriage return at the end may be half of a line end.
            cut = max(data.rfind(b"\n"), data.rstrip(b"\r").rfind(b"\r")) + 1
            if cut:
                yield Block(data[:cut], number, taken)
                number += data.count(b"\n", 0, cut)
                taken = 0
            rest = data[cut:]
            if len(rest) > 2 * LONGEST:
                rest = rest[:LONGEST] + rest[-LONGEST:]
    if rest.strip(b"\r"):
        yield Block(rest.rstrip(b"\r"), number, taken)
    if failed is not None:
        raise failed


def _ends_made_alike(data: bytes) -> bytes:
    """Lines that end in `\\n` alone, no empty pieces between carriage returns, no colours."""
    if b"\x1b" in data:
        data = _COLOUR.sub(b"", data)
    if b"\x08" in data:
        data = _BACKSPACES.sub(b"\r", data)
    if b"\r" not in data:
        return data
    if b"\r\n" in data:
        data = _END_OF_LINE.sub(b"\n", data)
    if b"\r" not in data:
        return data
    data = _ERASED.sub(b"\r", data)
    data = _RETURN_AT_BEGINNING.sub(b"\n", data)
    begun = _RETURNS_AT_BEGINNING.match(data)
    return data[begun.end() :] if begun is not None and begun.end() < len(data) else data


def _wide_decoder(head: bytes) -> Any:
    """A decoder for a text that begins so, if it is UTF-16, with its mark or without it."""
    form = ""
    if head[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        form = "utf-16"
    elif len(head) >= 4:
        even, odd = head[0::2].count(0) / len(head[0::2]), head[1::2].count(0) / len(head[1::2])
        if odd > _HALF and even < _MOST_CONTROL:
            form = "utf-16-le"
        elif even > _HALF and odd < _MOST_CONTROL:
            form = "utf-16-be"
    return codecs.getincrementaldecoder(form)("replace") if form else None


def is_binary(data: bytes) -> bool:
    """Whether the first bytes of a file are not those of a text in any encoding: many control characters."""
    head = data[:_JUDGED]
    control = len(head) - len(head.translate(None, _CONTROL))
    return control > len(head) * _MOST_CONTROL


def _pieces(stream: IO[bytes]) -> Iterator[bytes]:
    """Pieces of a block's size, however few bytes a pipe gives at once; the first is enough to be judged."""
    read = getattr(stream, "read1", None) or stream.read
    gathered: list[bytes] = []
    missing = max(BLOCK, _JUDGED)
    try:
        while piece := read(missing) or b"":
            gathered.append(piece)
            missing -= len(piece)
            if missing <= 0:
                yield b"".join(gathered)
                gathered, missing = [], BLOCK
    except OSError:
        if gathered:
            yield b"".join(gathered)
        raise
    if gathered:
        yield b"".join(gathered)


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


def lines_before(path: str, start: int) -> int:
    """How many lines end before a byte of a file. Raises `OSError`."""
    ends = 0
    if start > 0:
        with open_file(path) as stream:
            while start > 0 and (piece := stream.read(min(start, BLOCK))):
                ends += piece.count(b"\n")
                start -= len(piece)
    return ends


@contextmanager
def open_log(path: str, start: int = 0) -> Iterator[IO[bytes]]:
    """The log's bytes from one on, unpacked. Raises `OSError`; damage inside a packed file is `Damaged`."""
    if path == STANDARD_INPUT:
        yield _unpacked(sys.stdin.buffer, "FILE")
        return
    with open_file(path) as stream:
        stream.seek(start)
        yield _unpacked(stream, path)


def _unpacked(stream: Any, path: str) -> Any:
    """A stream that gives the text of an archive, known by its first bytes; any other stream itself."""
    peek = getattr(stream, "peek", None)
    head = peek(6)[:6] if peek is not None else b""
    if head.startswith(_GZIP):
        return _Archive(stream, _Gzip)
    if head.startswith(_XZ):
        return _Archive(stream, lambda: lzma.LZMADecompressor(memlimit=_PACKED_MEMORY))
    if head.startswith(_ZSTD) or (head[1:4] == _ZSTD_SKIPPED and head[0] >> 4 == 5):
        return _Archive(stream, _zstd(path))
    return stream


class _Member(Protocol):
    """What unpacks one member (gzip), stream (xz) or frame (zstd) of an archive."""

    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    @property
    def needs_input(self) -> bool: ...
    def decompress(self, data: bytes, max_length: int, /) -> bytes: ...


class _Archive:
    """Reads the text of all members of an archive, a piece at a time."""

    def __init__(self, stream: IO[bytes], begin: Callable[[], _Member]) -> None:
        self._stream, self._begin = stream, begin
        self._member = begin()
        self._rest = b""
        self._packed = self._given = 0

    def read1(self, size: int) -> bytes:
        """At most about `size` bytes, none at the end. Raises `RefusedFile` and `Damaged`."""
        if self._given > LOG_UNPACKED_START + LOG_UNPACKED_RATIO * self._packed:
            raise RefusedFile(
                say(
                    "it unpacks to more than {log_unpacked_ratio} times its size", log_unpacked_ratio=LOG_UNPACKED_RATIO
                )
            )
        while True:
            if self._member.eof:
                self._rest = self._member.unused_data.lstrip(b"\0") or self._read()
                if not self._rest:
                    return b""
                self._member = self._begin()
            packed = b""
            if self._member.needs_input or self._rest:
                packed, self._rest = self._rest or self._read(), b""
            try:
                text = self._member.decompress(packed, size)
            except Exception as error:
                if isinstance(error, zlib.error | lzma.LZMAError) or type(error).__name__ == "ZstdError":
                    raise Damaged(say("its packing is damaged: {error}", error=error)) from error
                raise
            if text:
                self._given += len(text)
                return text
            if not packed and self._member.needs_input and not self._member.eof:
                raise Damaged("its packing is damaged: it ends too early")

    def _read(self) -> bytes:
        piece = self._stream.read(_PACKED_PIECE) or b""
        self._packed += len(piece)
        return piece


class _Gzip:
    """A member of gzip."""

    def __init__(self) -> None:
        self._inner = zlib.decompressobj(16 + zlib.MAX_WBITS)

    @property
    def eof(self) -> bool:
        return self._inner.eof

    @property
    def unused_data(self) -> bytes:
        return self._inner.unused_data

    @property
    def needs_input(self) -> bool:
        return not self._inner.unconsumed_tail

    def decompress(self, data: bytes, max_length: int, /) -> bytes:
        return self._inner.decompress(self._inner.unconsumed_tail + data, max_length)


class _ZstandardFrame:
    """A frame of zstd, by the package `zstandard`, which bounds its output by its input alone."""

    def __init__(self, package: Any) -> None:
        self._inner = package.ZstdDecompressor(max_window_size=_PACKED_MEMORY).decompressobj()
        self._waiting = b""

    @property
    def eof(self) -> bool:
        return bool(self._inner.eof)

    @property
    def unused_data(self) -> bytes:
        return bytes(self._inner.unused_data) + self._waiting

    @property
    def needs_input(self) -> bool:
        return not self._waiting

    def decompress(self, data: bytes, _max_length: int, /) -> bytes:
        data = self._waiting + data
        self._waiting = data[_ZSTD_PIECE:]
        return bytes(self._inner.decompress(data[:_ZSTD_PIECE]))


def _zstd(path: str) -> Callable[[], _Member]:
    """Makes readers of zstd frames: Python's own since 3.14, else of the package `zstandard`."""
    try:
        own: Any = import_module("compression.zstd")
    except ImportError:
        pass
    else:
        return lambda: own.ZstdDecompressor(options={own.DecompressionParameter.window_log_max: _ZSTD_WINDOW})
    try:
        package = import_module("zstandard")
    except ImportError:
        raise RefusedFile(
            say(
                "it is packed by zstd, which this Python cannot unpack. Install zstandard (pip install "
                "zstandard), or unpack it: zstd -dc {quote} | gpudoctor autopsy -",
                quote=shlex.quote(path),
            )
        ) from None
    return lambda: _ZstandardFrame(package)
