"""What a value is: nothing secret, a quoted text, a line; a header of a request, a cookie, a block of YAML."""

from __future__ import annotations

from .forms import MASK, Expression, is_basic, listed, looks_random

_FIXED = listed("nothing")
_REFERENCE = Expression(
    r"\$\w|\$\{|\$\(|\$env:|%\w+%$|%\(\w+\)s|%s$|\{[^}\n]{0,80}\}$|\{\{|<[^<>\n]{1,80}>$|\[[A-Z_]{2,20}\]$|`|"
    r"[*•.xX#?-]+$|(?i:your|my|the|enter|insert|replace)[-_ ](?:own[-_ ])?"
    r"(?i:api|access|secret|token|key|password|hf|wandb)"
)
"""Values that only name a secret, or the place for one: `$TOKEN`, `{token}`, `<your key>`, `***`."""
_NUMBER = Expression(r"[-+]?[0-9][0-9_]*(?:\.[0-9]*)?(?:[eE][-+]?[0-9]+)?[,;)\]}]*$")
_LINE = 8000
"""Characters of a line that are read for a header or a cookie."""


def is_nothing(value: str, *, password: bool = True) -> bool:
    """Whether a value is none that could be secret: a switch, a small number, a reference to one."""
    word = value.strip().rstrip(",;)]}")
    if not word or word.lower() in _FIXED or _REFERENCE.match(word) or MASK in word:
        return True
    return bool(_NUMBER.match(word)) and len(word) <= (4 if password else 8)


def closing(text: str, start: int, closer: str) -> int:
    """Where a quoted text ends: at its closer, or else at the end of the line."""
    if closer in {'"""', "'''"}:
        end = text.find(closer, start)
        return end if end >= 0 else len(text)
    if len(closer) == 1:
        pattern = _INSIDE[closer]
        match = pattern.match(text, start)
        return match.end() if match else start
    stop = text.find("\n", start)
    stop = stop if stop >= 0 else len(text)
    end = text.find(closer, start, stop)
    return end if end >= 0 else stop


_INSIDE = {quote: Expression(rf"[^{quote}\\\n]*(?:\\.[^{quote}\\\n]*)*") for quote in "\"'`"}


def line_end(text: str, at: int) -> int:
    """The end of the line, or of as much of it as is read."""
    end = text.find("\n", at, at + _LINE)
    return end if end >= 0 else min(len(text), at + _LINE)


# Values of a shape of their own: headers of a request, cookies, blocks of YAML.

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
    return begin, stop, MASK


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
    return at, stop, MASK


def block(text: str, name: int, at: int) -> Found:
    """A block of YAML: the lines that are indented more than the name, which begins at `name`."""
    line = text.rfind("\n", 0, name) + 1
    indent = len(text[line:name]) - len(text[line:name].lstrip(" -"))
    end = at
    while end < len(text):
        stop = line_end(text, end)
        row = text[end:stop]
        if row.strip() and len(row) - len(row.lstrip(" \t")) <= indent:
            break
        end = min(stop + 1, len(text))
    first = at + len(text[at:end]) - len(text[at:end].lstrip())
    last = at + len(text[at:end].rstrip())
    return (first, last, MASK) if last > first else (at, at, "")
