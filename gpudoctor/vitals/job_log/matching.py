"""Finds the known message in a text, by the words that it holds."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache

from gpudoctor.analysis.job_log.consequences import SERVICE, consequences, harmless
from gpudoctor.model.log_message import PLAIN, Bearing, LogMessage
from gpudoctor.model.message_cues import cues_of
from gpudoctor.vitals.job_log.words import CueWords

_DIGITS = re.compile(r"\d[\d.,:e+-]*")
_LONGEST = 4000
_BEFORE_SYMPTOMS = 0.5
"""Behind the causes: a kill for memory counts, whoever reports it."""


@dataclass(frozen=True)
class KnownMessage:
    """A wording and the code of the check whose it is; "" for consequences and harmless ones."""

    code: str
    message: LogMessage

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """Compiled once a text holds one of its cues: most logs hold few of them."""
        return re.compile(self.message.pattern)


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
        table = [KnownMessage("", item) for item in (*harmless(), *consequences())]
        table += [KnownMessage(code, item) for code, item in of_checks]
        # A consequence may be worded like its cause: the causes' own wordings come first, hints last.
        order = {Bearing.CAUSE: 0, Bearing.SYMPTOM: 1, Bearing.CONSEQUENCE: 2, Bearing.HINT: 3, Bearing.HARMLESS: 4}
        self.all = sorted(
            table,
            key=lambda item: (
                item.message.kind == PLAIN,
                item.message.general,
                _BEFORE_SYMPTOMS if item.message.kind == SERVICE else order[item.message.bearing],
            ),
        )
        """In the order in which they are tried."""
        self.words = CueWords(
            (cue.encode(), number) for number, item in enumerate(self.all) for cue in cues_of(item.message)
        )
        """Numbers of the wordings whose cue a text holds."""

    def in_exception(self, text: str) -> Match | None:
        """The wording of an exception's type and message."""
        return self._first(text[:_LONGEST], lines=False)

    def in_line(self, text: str) -> Match | None:
        """The wording of a line that is no exception."""
        return self._first(text[:_LONGEST], lines=True)

    def _first(self, text: str, *, lines: bool) -> Match | None:
        for number in sorted(set(self.words.of_text(text.lower().encode("utf-8", "replace")))):
            item = self.all[number]
            if (item.message.everywhere or not lines) and (found := item.pattern.search(text)):
                around = item.message.outside or item.message.closing
                if around and not lines and "\n" in text[: found.start()]:
                    continue
                values = tuple((name, value.strip()) for name, value in found.groupdict().items() if value)
                return Match(item, values)
        return None


@lru_cache(maxsize=4)
def messages_table(of_checks: tuple[tuple[str, LogMessage], ...]) -> Messages:
    """The table of these wordings, made once: compiling their patterns takes longer than most logs."""
    return Messages(of_checks)


def skeleton(text: str) -> str:
    """The text with every number as 0: lines of a loop are the same then."""
    return _DIGITS.sub("0", text)
