"""Lines of a log that another tool wrote: UTF-8 or UTF-16, each within a budget."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import IO

from gpudoctor.model.read_limits import ReadLimit

_MARKS = (b"\xff\xfe", b"\xfe\xff", b"\xef\xbb\xbf")


def text_of(raw: bytes) -> str:
    """A line as text: UTF-16 of the letters that such tools write is every other byte."""
    for mark in _MARKS:
        raw = raw.removeprefix(mark)
    return raw.translate(None, b"\0\r").decode("utf-8", "replace")


def lines_of(stream: Iterable[bytes], limit: ReadLimit) -> Iterator[str]:
    """Lines of text, with their newline where they have one; of one beyond its budget only the beginning."""
    read = stream.readline  # type: ignore[attr-defined]
    while raw := read(limit.most):
        line = raw
        while not line.endswith(b"\n") and (line := read(limit.most)):
            pass
        yield text_of(raw)


_PIECE = 1 << 20


@dataclass(frozen=True, slots=True)
class LineBlock:
    """Lines of a file that follow one another."""

    data: bytes
    """As they stand, with their newlines; only the last line of a file may lack it."""
    lines: list[bytes]
    """The same without newlines."""
    long: int
    """Lines that lost their end to the limit."""


def blocks_of(stream: IO[bytes], limit: ReadLimit) -> Iterator[LineBlock]:
    """Whole lines in blocks of about a MiB, in UTF-8 or ASCII, without carriage returns."""
    rest, cut = b"", False
    for piece in iter(lambda: stream.read1(_PIECE), b""):  # type: ignore[attr-defined]  # all our files have it
        for mark in _MARKS if not rest and not cut else ():
            piece = piece.removeprefix(mark)
        piece = piece.translate(None, b"\0\r")
        if cut:  # inside a line whose beginning is in `rest`
            newline = piece.find(b"\n")
            if newline < 0:
                continue
            piece = piece[newline:]
        whole, newlines, tail = (rest + piece).rpartition(b"\n")
        if newlines:
            yield _block(whole + newlines, limit, cut)
        cut = len(tail) > limit.most
        rest = tail[: limit.most]
    if rest:
        yield LineBlock(data=rest, lines=[rest], long=int(cut))


def _block(data: bytes, limit: ReadLimit, cut: bool) -> LineBlock:
    """A block whose lines keep to the limit; of the first the end may be gone already."""
    lines = data.split(b"\n")
    lines.pop()
    long = int(cut)
    if max(map(len, lines)) > limit.most:
        long += sum(len(line) > limit.most for line in lines)
        lines = [line[: limit.most] for line in lines]
        data = b"\n".join(lines) + b"\n"
    return LineBlock(data=data, lines=lines, long=long)
