"""Finds the known message in a text; texts that repeat are looked at once."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from gpudoctor.analysis.job_log.consequences import CONSEQUENCES, HARMLESS
from gpudoctor.model.log_message import PLAIN, Bearing, LogMessage

_COMMON = tuple(
    word.encode()
    for word in (
        "error",
        "exception",
        "traceback",
        "fail",
        "kill",
        "abort",
        "cancel",
        "timeout",
        "signal",
        "cannot",
        "unable",
        "terminat",
        "nvrm",
        "warning",
        "oom",
        "fault",
        "exit",
        "sigb",
        "sigt",
        "sigi",
        "sigf",
        "siga",
        "sigs",
        "sigh",
        "corrupt",
        "preempt",
        "invalid",
        "nccl",
        "argument",
        "assert",
        "uncorrect",
        "ibv_",
        "unrecog",
        "mismatch",
        "driver",
        "libcuda",
        "shared_mem",
        "interrupt",
        "timed out",
        "could not",
        "not found",
        "no such",
        "return code",
        "out of bounds",
        "due to",
        "/dev/shm",
    )
)
"""Words that most messages have one of: each is one search of the whole text."""
_DIGITS = re.compile(r"\d[\d.,:e+-]*")
_MOST_KNOWN = 50_000
_LONGEST = 4000


@dataclass(frozen=True, slots=True)
class KnownMessage:
    """A wording and the code of the check whose it is; "" for consequences and harmless ones."""

    code: str
    message: LogMessage
    pattern: re.Pattern[str]


@dataclass(frozen=True, slots=True)
class Match:
    """A wording that was found."""

    known: KnownMessage
    values: tuple[tuple[str, str], ...]

    @property
    def plain(self) -> bool:
        """Whether it is an exception that no wording knows."""
        return self.known.message.kind == PLAIN


class Messages:
    """All wordings: those of the checks, consequences, harmless ones."""

    def __init__(self, of_checks: Iterable[tuple[str, LogMessage]]) -> None:
        table = [_known("", item) for item in (*HARMLESS, *CONSEQUENCES)]
        table += [_known(code, item) for code, item in of_checks]
        # A consequence may be worded like its cause: the causes' own wordings come first, hints last.
        order = {
            Bearing.CAUSE: 0,
            Bearing.SYMPTOM: 1,
            Bearing.CONSEQUENCE: 2,
            Bearing.HINT: 3,
            Bearing.HARMLESS: 4,
        }
        self._all = sorted(
            table,
            key=lambda item: (item.message.kind == PLAIN, item.message.general, order[item.message.bearing]),
        )
        self._lines = [item for item in self._all if item.message.everywhere]
        self._seen: set[str] = set()
        self.cues = _cues(self._lines)
        """Small-letter bytes; a line without any of them has no message and no exception."""

    def in_exception(self, text: str) -> Match | None:
        """The wording of an exception's type and message."""
        return _first(self._all, text[:_LONGEST])

    def in_line(self, text: str) -> Match | None:
        """The wording of a line that is no exception."""
        text = text[:_LONGEST]
        known = skeleton(text)
        if known in self._seen:
            return None
        found = _first(self._lines, text)
        if found is None or found.known.message.bearing is Bearing.HARMLESS:
            if len(self._seen) >= _MOST_KNOWN:
                self._seen.clear()
            self._seen.add(known)
        return found


def skeleton(text: str) -> str:
    """The text with every number as 0: lines of a loop are the same then."""
    return _DIGITS.sub("0", text)


def _known(code: str, message: LogMessage) -> KnownMessage:
    return KnownMessage(code, message, re.compile(message.pattern))


def _first(table: list[KnownMessage], text: str) -> Match | None:
    small = text.lower()
    for item in table:
        if any(cue in small for cue in item.message.cues) and (found := item.pattern.search(text)):
            values = tuple((name, value.strip()) for name, value in found.groupdict().items() if value)
            return Match(item, values)
    return None


def _cues(table: list[KnownMessage]) -> tuple[bytes, ...]:
    """Few words that every message has one of."""
    rest = {cue.encode() for item in table for cue in item.message.cues}
    words = sorted({*_COMMON, *rest}, key=len)
    found: list[bytes] = []
    for word in words:
        if word in _COMMON or not any(shorter in word for shorter in found):
            found.append(word)
    return tuple(found)
