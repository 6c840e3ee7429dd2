"""Walks every text of a report: the last net before anything is shown, and the road that `--share` takes."""

import dataclasses
import enum
from collections.abc import Callable, Iterator, Mapping
from functools import cache, lru_cache
from typing import Any, cast

from gpudoctor.lang import ENGLISH, Message, current_language, rendered
from gpudoctor.model import Report
from gpudoctor.model.redaction import mask_text
from gpudoctor.report.printable import printable

IDENTITIES: Mapping[str, str] = {
    "Finding": "code name", "Passed": "code", "Found": "code", "Skipped": "code", "Crashed": "code",
    "Named": "code name title help",
    "Measurement": "name unit", "Remedy": "id", "Effect": "quantity unit", "Subject": "kind",
    "Report": "version scripts", "RunSummary": "origin marker", "RunSeries": "name unit",
    "CardLine": "name", "Replay": "code operator", "Preflight": "mode backend",
    "MachineFinding": "code name severity", "Unit": "device", "Figure": "dtype algorithm when",
}  # fmt: skip
"""Fields that we or a plugin wrote as identifiers. No text of the patient gets there; scripts key on them."""

Rewrite = Callable[[str], str]


def rewrite(report: Report, change: Rewrite) -> Report:
    """The same report with every text changed, identifiers left as they are.

    Of a message its parts are changed, too: it stays one.
    """
    return cast(
        Report, _rewritten(report, lambda text: text.mapped(change) if isinstance(text, Message) else change(text))
    )


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
    return rewrite(report, _presentable)


@lru_cache(maxsize=4096)
def _presentable(text: str) -> str:
    """Remembered: titles and pages of checks are in every report of a process that makes several."""
    return mask_text(printable(text))


def for_reader(report: Report) -> Report:
    """`presentable`, in the language of now: what people read. Programs get `presentable` alone, in English."""
    shown = presentable(report)
    return shown if current_language() == ENGLISH else cast(Report, _rewritten(shown, rendered))


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
        changes: dict[str, Any] = {}
        kind: type = type(value)
        for name in _texts_of(kind):
            old = getattr(value, name)
            if old is None or isinstance(old, int | float | enum.Enum):
                continue
            new = _rewritten(old, change)
            if new != old:
                changes[name] = new
        return dataclasses.replace(value, **changes) if changes else value
    return value  # numbers, truths, None, enumerations and sets of them


@cache
def _texts_of(kind: type) -> tuple[str, ...]:
    """The fields of a type that may hold texts of the patient."""
    ours = IDENTITIES.get(kind.__name__, "").split()
    return tuple(item.name for item in dataclasses.fields(kind) if item.name not in ours)
