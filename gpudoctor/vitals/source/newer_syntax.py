"""Code for a newer Python: what this one cannot parse is blanked. (libcst dies of files that nest too deep.)"""

import ast
import re

_TYPES = r"\[(?:[^\[\]]|\[[^\[\]]*\])*\]"
_HEAD = re.compile(rf"^([ \t]*(?:async )?(?:def|class) \w+)({_TYPES})|^([ \t]*)type \w+(?:{_TYPES})?(?= *=[^=])", re.M)
_STRING = re.compile(r"""#[^\n]*|(?<!\w)([rRbBuUfF]{0,2})("{3}|'{3}|"|')""")


def without_newer_syntax(text: str) -> tuple[str, list[int]]:
    """The text without newer f-strings, type aliases and type parameters, and their lines.

    All else stays at its line and column. Raises `RecursionError` for strings that nest too deep.
    """
    found = [(match.span(), _head(match)) for match in _HEAD.finditer(text)]
    at = 0
    while string := _STRING.search(text, at):
        at = _end(text, string)
        part = text[string.start() : at]
        if at <= len(text) and "f" in (string[1] or "").lower() and not _parses(part):
            quotes = '"""' if "\n" in part else '"'
            size = len(quotes)
            found.append(((string.start(), at), quotes + _blank(part[size:-size]) + quotes))
    pieces, at, lines = [], 0, []
    for (start, end), new in sorted(found):
        if start >= at:
            pieces += [text[at:start], new]
            lines.append(text.count("\n", 0, start) + 1)
            at = end
    return "".join([*pieces, text[at:]]), lines


def _head(match: re.Match[str]) -> str:
    """`def f[T](x)` as `def f   (x)`, `type X = int` as `X      = int`."""
    if match[2]:
        return match[1] + _blank(match[2]).replace(" \n", "\\\n")
    name = match[0].split()[1].partition("[")[0]
    return match[3] + name + _blank(match[0][len(match[3]) + len(name) :])


def _end(text: str, start: re.Match[str]) -> int:
    """Where the string, or the comment, that begins at a place ends; beyond the text if it does not."""
    quotes, formatted, at, depth = start[2], "f" in (start[1] or "").lower(), start.end(), 0
    while quotes and at < len(text):
        if not depth and text.startswith(quotes, at):
            return at + len(quotes)
        if depth and (inner := _STRING.match(text, at)):
            at = _end(text, inner)
        elif text[at] == "\\" or (not depth and text.startswith("{{", at)):
            at += 2
        else:
            depth += formatted and text[at] in ("{[(" if depth else "{")
            depth -= bool(depth) and text[at] in "}])"
            at += 1
    return len(text) + 1 if quotes else at


def _blank(part: str) -> str:
    """As many bytes of white space; the lines stay."""
    return "".join("\n" if letter == "\n" else " " * len(letter.encode()) for letter in part)


def _parses(part: str) -> bool:
    try:
        ast.parse(part)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True
