"""Where a line of text may break: at blanks, and between Chinese characters."""

import re
from collections.abc import Iterable
from unicodedata import east_asian_width

_CJK = "\u2e80-\u2fff\u3005-\u3007\u3021-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff"
_OPENING = "「『（《〈【“‘"
_CLOSING = "。，、；：！？）」』》〉】”’…—"
_TOKEN = re.compile(r"\S*?\blines? \d\S*\s*|\S+\s*|\s+")
_PIECE = (
    rf"[{_OPENING}]*[{_CJK}][{_CLOSING}]*\s*|[{_OPENING}]*[^{_CJK}{_OPENING}{_CLOSING}]+[{_CLOSING}]*\s*"
    rf"|[{_OPENING}{_CLOSING}]+\s*"
)
"""A Chinese character with its punctuation, or a run of other letters: a word, code, a number."""
_FOLD = rf"(?<=[。，、；：！？）」』》〉】]) |(?<=[{_CJK}]) (?=[{_CJK}{_OPENING}])"
_NAME = rf"[^{_CLOSING}{_OPENING}]*[/\\_][^{_CLOSING}{_OPENING}]*"
"""A path or an identifier, which may have Chinese characters in it."""
_FEWEST = 12
"""Columns of a line, at least."""


def pieces(text: str) -> list[str]:
    """The text in pieces that a line keeps whole, each with the blanks and closing punctuation after it."""
    tokens: list[str] = _TOKEN.findall(text)
    if text.isascii():
        return tokens
    groups = ([token] if re.fullmatch(_NAME, token) else re.findall(_PIECE, token) for token in tokens)
    return [piece for group in groups for piece in group]


def unfolded(lines: Iterable[str]) -> str:
    """Lines of a paragraph as one, with no blank where a line ended between two Chinese characters."""
    return re.sub(_FOLD, "", " ".join(lines))


def is_wide(text: str) -> bool:
    """Whether a text has characters between which a line may break."""
    return not text.isascii() and re.search(f"[{_CJK}]", text) is not None


def cells(text: str) -> int:
    """Columns that a text takes on a terminal: a Chinese character takes two."""
    if text.isascii():
        return len(text)
    return sum(2 if east_asian_width(letter) in "WF" else 1 for letter in text)


def padded(text: str, columns: int, *, right: bool = False) -> str:
    """The text in so many columns, with blanks after it, or before it if `right`."""
    blanks = " " * (columns - cells(text))
    return blanks + text if right else text + blanks


def wrap(text: str, width: int, indent: int = 0, hang: int = 0) -> list[str]:
    """Lines of at most `width` columns: `indent` blanks before the first, `indent + hang` before the others.

    A piece that is longer than a line runs over: in parts it could not be copied.
    """
    rest = text.lstrip()
    line = text[: len(text) - len(rest)]
    begun = used = len(line)
    lines, room = [], max(width - indent, _FEWEST)
    for piece in pieces(rest):
        if used > begun and used + cells(piece.rstrip()) > room:
            lines.append(line)
            line, begun, used, room = "", 0, 0, max(width - indent - hang, _FEWEST)
        line += piece
        used += cells(piece)
    lines.append(line)
    return [(" " * (indent + hang if number else indent) + each).rstrip() for number, each in enumerate(lines)]
