"""Values of a shape of their own: headers of a request, cookies, blocks of YAML."""

from __future__ import annotations

from .expression import Expression
from .forms import MASK, is_basic, looks_random
from .values import closing, is_nothing, line_end, to_line_end

OPEN = Expression(r"[rbfuRBFU]{0,2}(\\{0,3})(\"\"\"|'''|[\"'`]|&quot;|%22)")
_WORD = Expression(r"[^\s\"'`]+")
_SCHEME = Expression(
    r"(?i)(bearer|basic|token|digest|negotiate|ntlm|apikey|api-key|key|aws4-hmac-sha256)([ \t]+|%20|\+)"
)
BLOCK = Expression(r"[|>][+-]?[0-9]?[ \t]{0,40}\n")
WINDOW = 160
"""Characters of a value without quotes that are judged."""

Found = tuple[int, int, str]
"""Start, end, and what to write there; nothing is masked where the start is the end."""


def header(text: str, at: int) -> Found:
    """`Authorization: Bearer ...`: the scheme stays."""
    opened = OPEN.match(text, at)
    start = opened.end() if opened else at
    stop = closing(text, start, opened[1] + opened[2]) if opened else line_end(text, start)
    scheme = _SCHEME.match(text, start, stop)
    begin = scheme.end() if scheme else start
    whole = opened is not None or (scheme is not None and scheme[1].lower() in {"digest", "aws4-hmac-sha256"})
    if not whole:
        bare = _WORD.match(text, begin, stop)
        stop = bare.end() if bare else begin
        while stop > begin and text[stop - 1] in ",;)]}":
            stop -= 1
    value = text[begin:stop]
    if is_nothing(value) or (not whole and scheme is None and value.isalpha() and len(value) < 16):
        return begin, begin, ""
    if scheme and value.isalpha() and value.islower() and len(value) < 12 and not is_basic(value):
        return begin, begin, ""
    return begin, to_line_end(text, start, stop) if whole and opened is None else stop, MASK


def cookies(text: str, at: int) -> Found:
    """`Cookie: a=b; c=d`: all of it."""
    opened = OPEN.match(text, at)
    if opened is not None:
        end = closing(text, opened.end(), opened[1] + opened[2])
        return opened.end(), end, MASK if end > opened.end() else ""
    line = line_end(text, at)
    quotes = [found for mark in "\"'" if (found := text.find(mark, at, line)) >= 0]
    stop = min(quotes, default=line)
    value = text[at : min(stop, at + WINDOW)]
    if "=" not in value and not looks_random(value, 8):
        return at, at, ""
    return at, stop if quotes else to_line_end(text, at, stop), MASK


def block(text: str, name: int, at: int) -> Found:
    """A block of YAML: the lines that are indented more than the name, which begins at `name`."""
    line = text.rfind("\n", 0, name) + 1
    indent = len(text[line:name]) - len(text[line:name].lstrip(" -"))
    end = at
    while end < len(text):
        stop = to_line_end(text, end, line_end(text, end))
        row = text[end:stop]
        if row.strip() and len(row) - len(row.lstrip(" \t")) <= indent:
            break
        end = min(stop + 1, len(text))
    first = at + len(text[at:end]) - len(text[at:end].lstrip())
    last = at + len(text[at:end].rstrip())
    return (first, last, MASK) if last > first else (at, at, "")
