"""Lines of a log that another tool wrote: UTF-8 or UTF-16, each within a budget."""

from collections.abc import Iterable, Iterator

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
