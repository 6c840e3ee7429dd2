"""Which lines of a log are worth reading: those that may hold a message, an exception or a stack dump.

Whether a line is worth it depends on the line alone, not on the lines around it.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from gpudoctor.model.log_message import Bearing
from gpudoctor.vitals.job_log.line_prefix import plain
from gpudoctor.vitals.job_log.matching import Messages
from gpudoctor.vitals.job_log.opening import text_of
from gpudoctor.vitals.job_log.words import Cued, CueWords

_MOST_COMMON = 100_000
_EXCEPTION_WORDS = (
    "Error", "Exception", "Exit", "Interrupt", "Timeout", "Failure", "Fault", "Failed", "Iteration", "Aborted",
    "Died", "Refused", "Unavailable", "Missing", "NotFound", "Invalid", "Unsupported", "Violation", "Rejected",
)  # fmt: skip
"""How the names of exceptions end (`tracebacks.py`)."""
_CAPITAL = {word.lower().encode(): word.encode() for word in _EXCEPTION_WORDS}
_EXCEPTION = re.compile(rf"(?:{'|'.join(_EXCEPTION_WORDS)})\w*(?:\(\w{{1,80}}\))?(?::|\s*$)".encode())
_DOTTED_EXCEPTION = re.compile(rb"\.(?:[A-Z]\w*|[a-z]*error)(?:\(\w{1,80}\))?: ")
_DOTTED_WORDS = (
    b"error", b"exception", b"fail", b"kill", b"abort", b"cancel", b"timeout", b"signal", b"cannot", b"unable",
    b"terminat", b"fault", b"exit", b"corrupt", b"invalid", b"argument", b"assert", b"mismatch", b"interrupt",
    b"timed", b"could", b"found", b"such", b"bounds", b"memory",
)  # fmt: skip
"""Words of which the message of an exception with an unusual name has one."""
TRACEBACK = b"traceback (most recent call last)"
_BEGINNINGS: tuple[tuple[bytes, re.Pattern[str] | None], ...] = (
    (TRACEBACK, None),
    (b"exception ignored in", None),
    (b"exception in thread", None),
    (b"error in atexit", None),
    (b"what():", None),
    (b"(most recent call first)", None),
    (b" (idle", re.compile(r"Thread \S+ \(idle")),
    (b" (active", re.compile(r"Thread \S+ \(active")),
    (b"process ", re.compile(r"Process \d{1,10}: ")),
)
"""What begins a traceback, or a stack dump."""
_RANK = re.compile(rb"\W{0,4}[a-z_]*(\d{1,6})\W")


class _Sign(NamedTuple):
    """What a cue may be of."""

    name: str
    """Of what it is; the number of a wording."""
    pattern: re.Pattern[str] | None = None
    """Matches every line that is of it, and few others."""
    digits: bool = False
    """Whether the pattern asks for certain digits."""


_NAMED, _DOTTED = _Sign("exception"), _Sign("dotted exception")


class _Plan(NamedTuple):
    """What a line with certain words is to be tried for."""

    exceptions: tuple[bytes, ...]
    """Words that the name of an exception may end in."""
    dotted: bool
    """Whether it may be an exception of an unusual name."""
    signs: tuple[Cued[_Sign], ...]


@dataclass(frozen=True, slots=True)
class Worth:
    """A line that is worth reading."""

    key: tuple[object, ...]
    """The same for lines that likely say the same: rank, type of exception, wordings whose cue is there."""
    by_digits: bool
    """Whether a line that differs in digits alone may mean something else."""


class LineFilter:
    """Chooses lines; those that differ from known ones in digits only are judged once."""

    def __init__(self, table: Messages) -> None:
        self._table = table
        self._words = CueWords(_signs(table))
        self._plans: dict[frozenset[bytes], _Plan] = {}
        """By the words that hold an anchor."""
        self._common: set[bytes] = set()
        """Lines without digits that are not worth reading."""

    def chosen(self, pieces: list[bytes], bares: list[bytes]) -> tuple[dict[int, Worth], list[int]]:
        """The numbers of pieces that are worth reading, and of those that were not seen before.

        `bares` are the pieces as `bare` leaves them.
        """
        common = self._common
        fresh = [index for index, key in enumerate(bares) if key not in common]
        found: dict[int, Worth] = {}
        if not fresh:
            return found, fresh
        all_words = set(b"\n".join([bares[index] for index in fresh]).split())
        hot = self._words.hot_words(all_words)
        told = self._table.words.hot_words(all_words) if hot else set()
        room = len(common) < _MOST_COMMON
        if not hot and room:
            common.update(bares[index] for index in fresh)
        for index in fresh if hot else ():
            key = bares[index]
            own = key.split()
            words = hot.intersection(own)
            by_digits = False
            if words:
                worth, by_digits = self._judge(pieces[index], key, frozenset(words))
                if worth is not None:
                    rank = _RANK.match(pieces[index])
                    signs = worth.union(
                        self._table.words.of_words(told.intersection(own), pieces[index].lower())
                    )
                    found[index] = Worth((rank and rank[1], signs), by_digits)
                    continue
            if room and not by_digits:
                common.add(key)
        return found, fresh

    def _judge(
        self, piece: bytes, key: bytes, words: frozenset[bytes]
    ) -> tuple[frozenset[object] | None, bool]:
        """What makes a piece worth reading, and whether other digits could."""
        plan = self._plans.get(words) or self._plan(words)
        hits: list[object] = []
        if (
            plan.exceptions
            and any(word in piece for word in plan.exceptions)
            and (found := _EXCEPTION.search(piece))
        ):
            hits.append(piece[max(piece.rfind(b" ", 0, found.start()), 0) : found.end()])
        if plan.dotted and b": " in piece and (found := _DOTTED_EXCEPTION.search(piece)):
            hits.append(piece[max(piece.rfind(b" ", 0, found.start()), 0) : found.end()])
        by_digits = False
        small = text = None
        for cue, bare_cue, sign in plan.signs:
            small = small or piece.lower()
            if cue not in small:
                by_digits = by_digits or (bare_cue != cue and bare_cue in key)
                continue
            if sign.pattern is not None:
                text = text if text is not None else plain(text_of(piece))
                by_digits = by_digits or sign.digits
                if sign.pattern.search(text) is None:
                    continue
            hits.append(sign.name)
        return (frozenset(hits) if hits else None), by_digits

    def _plan(self, words: frozenset[bytes]) -> _Plan:
        items = {item for word in words for item in self._words.hot[word]}
        plan = _Plan(
            exceptions=tuple(_CAPITAL[item.cue] for item in items if item.of is _NAMED),
            dotted=any(item.of is _DOTTED for item in items),
            signs=tuple(item for item in items if item.of not in (_NAMED, _DOTTED)),
        )
        if len(self._plans) > _MOST_COMMON:
            self._plans.clear()
        self._plans[words] = plan
        return plan


def _signs(table: Messages) -> Iterator[tuple[bytes, _Sign]]:
    for cue, pattern in _BEGINNINGS:
        yield cue, _Sign(cue.decode(), pattern)
    for cue in _CAPITAL:
        yield cue, _NAMED
    for cue in _DOTTED_WORDS:
        yield cue, _DOTTED
    for number, item in enumerate(table.all):
        message = item.message
        if message.everywhere and message.bearing is not Bearing.HARMLESS:
            sign = _Sign(f"{number}", _wider(message.pattern), _asks_for_digits(message.pattern))
            for each in message.cues:
                yield each.encode(), sign


_CLASS = re.compile(r"\[\^?\]?(?:\\.|[^\]\\])*\]")
_ANCHOR = re.compile(r"(\\.|\[\^?\]?(?:\\.|[^\]\\])*\])|[\^$]")
_LOOK = re.compile(r"\(\?<?[!=]")


def _wider(pattern: str) -> re.Pattern[str]:
    """A pattern that also matches where other text stands around: without anchors, and without looks around."""
    while (found := _LOOK.search(pattern)) is not None:
        pattern = pattern[: found.start()] + pattern[_closing(pattern, found.start()) + 1 :]
    return re.compile(_ANCHOR.sub(lambda found: found[1] or "", pattern).replace(r"\Z", "").replace(r"\A", ""))


def _closing(pattern: str, begin: int) -> int:
    """Where the bracket that opens at a place closes."""
    depth, at = 0, begin
    while at < len(pattern):
        if pattern[at] == "\\":
            at += 2
            continue
        if pattern[at] == "[" and (found := _CLASS.match(pattern, at)):
            at = found.end()
            continue
        depth += {"(": 1, ")": -1}.get(pattern[at], 0)
        if depth == 0:
            return at
        at += 1
    raise ValueError(pattern)


def _asks_for_digits(pattern: str) -> bool:
    """Whether a pattern asks for certain digits or signs, which lines of a loop differ in."""
    rest = re.sub(r"\\d|\{\d{0,6},?\d{0,6}\}|0-9", "", pattern)
    return re.search(r"\d|\\[.+-]|-\d", rest) is not None
