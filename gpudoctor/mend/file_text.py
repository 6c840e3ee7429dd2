"""A file's text with its encoding and newlines, and edits as splices on it."""

import codecs
import io
import tokenize
from hashlib import sha256
from pathlib import Path

from gpudoctor.lang import SpokenError
from gpudoctor.model.external_files import read_file as _door
from gpudoctor.model.read_limits import SCRIPT
from gpudoctor.model.records import dataclass, frozen


class CannotMend(SpokenError):
    """An edit or a file that cannot be mended; the text is a clause for a person."""


@frozen
class FileText:
    """A file as it was read."""

    path: Path
    text: str
    """With plain newlines."""
    encoding: str
    newline: str
    """`\\n`, `\\r\\n` or `\\r`: the one that the file uses."""
    digest: str
    """SHA-256 of its bytes: a file that has changed meanwhile is not overwritten."""

    def encode(self, text: str) -> bytes:
        """The bytes of a new text in this file's own encoding and newlines."""
        try:
            return text.replace("\n", self.newline).encode(self.encoding)
        except UnicodeEncodeError as error:
            raise CannotMend("the new text does not fit its encoding, {encoding}", encoding=self.encoding) from error


def read_file(path: Path) -> FileText:
    """Read a file to mend; `CannotMend` when it is gone, not text, or mixes newlines."""
    try:
        data = _door(path, SCRIPT)
    except OSError as error:
        raise CannotMend("cannot be read: {reason}", reason=error.strerror or error) from error
    encoding = _encoding(data, path)
    try:
        raw = data.decode(encoding)
    except (UnicodeDecodeError, LookupError) as error:
        raise CannotMend("not {encoding} text", encoding=encoding) from error
    newline = "\r\n" if "\r\n" in raw else "\r" if "\r" in raw and "\n" not in raw else "\n"
    text = raw.replace(newline, "\n")
    if "\r" in text:
        raise CannotMend("it mixes newline styles")
    return FileText(path=path, text=text, encoding=encoding, newline=newline, digest=sha256(data).hexdigest())


def _encoding(data: bytes, path: Path) -> str:
    if path.suffix in {".py", ".pyw"}:
        try:
            return tokenize.detect_encoding(io.BytesIO(data).readline)[0]
        except SyntaxError as error:
            raise CannotMend("its declared encoding is unknown") from error
    return "utf-8-sig" if data.startswith(codecs.BOM_UTF8) else "utf-8"


@dataclass(frozen=True, slots=True, order=True)
class Splice:
    """Replace characters `start` to `end` by `new`."""

    start: int
    end: int
    new: str

    def meets(self, other: "Splice") -> bool:
        """Whether two splices touch the same characters (two insertions at one place do)."""
        if self.start == self.end or other.start == other.end:
            return self.start <= other.end and other.start <= self.end
        return self.start < other.end and other.start < self.end


def offset(text: str, line: int, column: int) -> int:
    """The index of a 1-based line and column; `CannotMend` when there is no such place."""
    start = 0
    for _ in range(line - 1):
        start = text.find("\n", start) + 1
        if start == 0:
            raise CannotMend("the file has fewer lines than when it was examined")
    end = text.find("\n", start)
    if start + column - 1 > (len(text) if end == -1 else end):
        raise CannotMend("line {line} is shorter than when it was examined", line=line)
    return start + column - 1


def splice(text: str, splices: list[Splice]) -> str:
    """Apply splices that do not meet; of insertions at one place the first named comes first in the text."""
    for item in sorted(splices, key=lambda item: (item.start, item.end))[::-1]:
        text = text[: item.start] + item.new + text[item.end :]
    return text
