"""Walks every text of a report: the last net before anything is shown, and the road that `--share` takes."""

import dataclasses
import enum
from collections.abc import Callable, Iterator
from typing import Any, cast

from gpudoctor.model import (
    Crashed,
    Effect,
    Finding,
    Found,
    Measurement,
    Named,
    Passed,
    Remedy,
    Report,
    Skipped,
    Subject,
)
from gpudoctor.model.redaction import mask_text
from gpudoctor.model.replay import Replay
from gpudoctor.model.run import RunSummary, Series

IDENTITIES: frozenset[tuple[type, str]] = frozenset(
    {
        (Finding, "code"),
        (Finding, "name"),
        (Passed, "code"),
        (Found, "code"),
        (Skipped, "code"),
        (Crashed, "code"),
        (Named, "code"),
        (Named, "name"),
        (Named, "title"),
        (Named, "help"),
        (Measurement, "name"),
        (Measurement, "unit"),
        (Remedy, "id"),
        (Effect, "quantity"),
        (Effect, "unit"),
        (Subject, "kind"),
        (Report, "version"),
        (RunSummary, "origin"),
        (RunSummary, "marker"),
        (Series, "name"),
        (Series, "unit"),
        (Replay, "code"),
        (Replay, "operator"),
    }
)
"""Fields that we or a plugin wrote as identifiers. No text of the patient gets there; scripts key on them."""

Rewrite = Callable[[str], str]


def rewrite(report: Report, change: Rewrite) -> Report:
    """The same report with every text changed, identifiers left as they are."""
    return cast(Report, _rewritten(report, change))


def texts(report: Report) -> Iterator[str]:
    """Every text of a report, identifiers left out."""
    found: list[str] = []

    def note(text: str) -> str:
        found.append(text)
        return text

    rewrite(report, note)
    yield from found


def presentable(report: Report) -> Report:
    """The report as any format may show it: secrets masked, nothing that a terminal chokes on."""
    return rewrite(report, lambda text: mask_text(printable(text)))


def printable(text: str) -> str:
    """The text without control characters: a source line or a log may hold escape sequences or broken bytes.

    Line feeds and tabs stay. A control character becomes its Python escape, a lone surrogate (a file name that
    is no UTF-8) the escape of its byte.
    """
    return text if _is_plain(text) else "".join(map(_visible, text.replace("\r\n", "\n")))


def one_line(text: str) -> str:
    """The text on one line: every run of white space is one space."""
    return " ".join(text.split())


def _is_plain(text: str) -> bool:
    return text.isascii() and all(character.isprintable() or character in "\n\t" for character in text)


def _visible(character: str) -> str:
    code = ord(character)
    if character in "\n\t" or character.isprintable():
        return character
    if 0xDC80 <= code <= 0xDCFF:  # os.fsdecode's way to keep a byte that is no UTF-8
        return f"\\x{code - 0xDC00:02x}"
    if code in (
        0x200C,
        0x200D,
    ):  # joiners shape scripts; other format characters can reorder what a reader sees
        return character
    if character.isspace() and code >= 0xA0:
        return " "
    return f"\\x{code:02x}" if code < 0x100 else character.encode("ascii", "backslashreplace").decode("ascii")


def _rewritten(value: Any, change: Rewrite) -> Any:  # a generic walk: the types are those of the model
    if isinstance(value, str):
        return change(value)
    if isinstance(value, tuple):
        return tuple(_rewritten(item, change) for item in value)
    if isinstance(value, list):
        return [_rewritten(item, change) for item in value]
    if isinstance(value, dict):
        return {change(key): _rewritten(item, change) for key, item in value.items()}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _rewritten_fields(value, change)
    return value  # numbers, truths, None, enumerations and sets of them


def _rewritten_fields(value: Any, change: Rewrite) -> Any:
    kind = type(value)
    changes: dict[str, Any] = {}
    for item in dataclasses.fields(value):
        old = getattr(value, item.name)
        if (kind, item.name) in IDENTITIES or isinstance(old, enum.Enum):
            continue
        new = _rewritten(old, change)
        if new != old:
            changes[item.name] = new
    return dataclasses.replace(value, **changes) if changes else value
