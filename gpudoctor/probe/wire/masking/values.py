"""What a value is: nothing secret, a quoted text, a line."""

from __future__ import annotations

from .expression import Expression, words
from .forms import MASK

_FIXED = words(
    "true false none null nil undefined yes no on off nan auto default required optional redacted masked "
    "hidden removed secret_here changeme_here unset empty str int bool bytes string number todo tbd "
    "missing invalid expired wrong ok not set unknown any all disabled enabled"
)
_REFERENCE = Expression(
    r"\$\w|\$\{|\$\(|\$env:|%\w+%$|%\(\w+\)s|%s$|\{[^}\n]{0,80}\}$|\{\{|<[^<>\n]{1,80}>$|\[[A-Z_]{2,20}\]$|`|"
    r"[*•.xX#?-]+$|(?i:your|my|the|enter|insert|replace)[-_ ](?:own[-_ ])?"
    r"(?i:api|access|secret|token|key|password|hf|wandb)"
)
"""Values that only name a secret, or the place for one: `$TOKEN`, `{token}`, `<your key>`, `***`."""
_NUMBER = Expression(r"[-+]?[0-9][0-9_]*(?:\.[0-9]*)?(?:[eE][-+]?[0-9]+)?[,;)\]}]*$")
_LINE = 4000
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


def to_line_end(text: str, at: int, end: int) -> int:
    """The true end of a line that was read to `end`."""
    if end < at + _LINE:
        return end
    true = text.find("\n", end)
    return true if true >= 0 else len(text)
