"""Sections of configs whose every value is a secret: `secrets:`, `[credentials]`."""

from __future__ import annotations

from collections.abc import Collection

from .forms import MASK, Expression
from .names import secrecy
from .values import is_nothing

_NAMES = (
    "secrets", "credentials", "passwords", "api_keys", "apikeys", "access_keys", "accesskeys", "api_tokens",
    "apitokens", "auth_tokens", "authtokens",
)  # fmt: skip
"""Names of sections whose every value is a secret."""
_HEAD = Expression(
    r"(?im)^[ \t]{0,40}(?:\[\[?[ \t]{0,4})?[\"']?(?:[\w.-]{0,60}[._-])?"
    rf"(?:{'|'.join(_NAMES)})"
    r"[\"']?[ \t]{0,40}(?:\]\]?|:)[ \t]{0,40}\r?$"
)
_ROW = Expression(r"[ \t]*(?:- )?[\"']?([\w.-]+)[\"']?[ \t]*[:=][ \t]*[\"']?([^\s\"'#]+(?:[^\"'\n#]*[^\s\"'#])?)")
_SETTINGS = frozenset(
    {
        "name",
        "type",
        "path",
        "file",
        "provider",
        "user",
        "username",
        "region",
        "host",
        "url",
        "namespace",
        "kind",
        "version",
    }
)


def is_secret_entry(parents: Collection[str], name: str) -> bool:
    """Whether an entry of sections of these names is a secret by them: not the `user` or the `host` in them."""
    return bool({parent.lower() for parent in parents} & set(_NAMES)) and name.lower() not in _SETTINGS


def mask_sections(text: str) -> str:
    """The text without the values of such sections; each ends where its indentation or its table ends."""
    parts: list[str] = []
    done = 0
    for head in _HEAD.finditer(text):
        if head.start() < done:
            continue
        line = head[0].lstrip()
        table, indent = line.startswith("["), len(head[0]) - len(line)
        at = head.end() + 1
        while at < len(text):
            end = text.find("\n", at) + 1 or len(text)
            row = text[at:end]
            bare = row.lstrip()
            if bare and (bare.startswith("[") if table else len(row) - len(bare) <= indent):
                break
            if _HEAD.match(text, at) is not None:
                break
            masked = _masked(row)
            if masked is not row:
                parts += [text[done:at], masked]
                done = end
            at = end
        if done < at <= len(text):
            parts.append(text[done:at])
            done = at
    return "".join([*parts, text[done:]]) if parts else text


def _masked(line: str) -> str:
    row = _ROW.match(line)
    if row is None or row[1].lower() in _SETTINGS or is_nothing(row[2]) or row[2][0] in "[{|>":
        return line
    if secrecy(row[1]):
        return line  # masked by its own name
    return line[: row.start(2)] + MASK + line[row.end(2) :]
