"""Which lines of a log are worth reading: those that may hold a message, an exception or a stack dump.

Whether a line is worth it depends on the line alone, not on the lines around it.
"""

import re
from bisect import bisect_right
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, count

from gpudoctor.model.log_message import Bearing
from gpudoctor.vitals.job_log.line_prefix import plain
from gpudoctor.vitals.job_log.matching import Messages
from gpudoctor.vitals.job_log.opening import text_of
from gpudoctor.vitals.job_log.required_text import NOTHING_REQUIRED, RequiredText, required_text
from gpudoctor.vitals.job_log.words import CueWords, bare

_MOST_BYTES = 16 << 20
"""Bytes of lines that are remembered."""
_MOST_KEYS = 20_000
_LONGEST_NAME = 200
_EXCEPTION_WORDS = (
    "Error", "Exception", "Exit", "Interrupt", "Timeout", "Failure", "Fault", "Failed", "Iteration", "Aborted",
    "Died", "Refused", "Unavailable", "Missing", "NotFound", "Invalid", "Unsupported", "Violation", "Rejected",
)  # fmt: skip
"""How the names of exceptions end (`tracebacks.py`)."""
_CAPITAL = {word.lower().encode(): word.encode() for word in _EXCEPTION_WORDS}
_DOTTED_EXCEPTION = re.compile(rb"\.(?:[A-Z]\w*|[a-z]*error)(?:\(\w{1,80}\))?: ")
_DOTTED_WORDS = (
    b"error", b"exception", b"fail", b"kill", b"abort", b"cancel", b"timeout", b"signal", b"cannot", b"unable",
    b"terminat", b"fault", b"exit", b"corrupt", b"invalid", b"argument", b"assert", b"mismatch", b"interrupt",
    b"timed", b"could", b"found", b"such", b"bounds", b"memory",
)  # fmt: skip
"""Words of which the message of an exception with an unusual name has one."""
TRACEBACK = b"Traceback (most recent call last)"
_BEGINNINGS: tuple[tuple[bytes, re.Pattern[str] | None], ...] = (
    (TRACEBACK.lower(), None),
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
_CONTROL = bytes({*range(9), 11, 12, *range(14, 32), 127})
_COLOUR = re.compile(rb"\[(?:\d{1,3}(?:;\d{1,3})*)?m")
"""What `plain` takes out of a line; the second is a colour that lost its escape."""
_RANK = re.compile(rb"\W{0,4}[a-z_]*(\d{1,6})\W")


@dataclass(frozen=True, slots=True, eq=False)
class _Sign:
    """What a cue may be of."""

    name: str
    """Of what it is; the number of a wording."""
    pattern: re.Pattern[str] | None = None
    """Matches every line that is of it, and few others."""
    required: RequiredText = NOTHING_REQUIRED
    """What such a line holds."""
    digits: bool = False
    """Whether the pattern asks for certain digits."""


_NAMED, _DOTTED = _Sign("exception"), _Sign("dotted exception")


@dataclass(frozen=True, slots=True)
class Worth:
    """A line that is worth reading."""

    key: int
    """The same for lines that likely say the same: rank, type of exception, wordings whose cue is there."""
    by_digits: bool
    """Whether a line that differs in digits alone may mean something else."""


class _Lines:
    """Lines and what they are together, to search them all at once."""

    def __init__(self, lines: list[bytes]) -> None:
        self.lines = lines
        self.data = b"\n".join(lines)
        self.small = self.data.lower()
        self._starts: list[int] = []

    @property
    def starts(self) -> list[int]:
        """Where each line begins."""
        if not self._starts:
            self._starts = [0, *accumulate(len(line) + 1 for line in self.lines)]
        return self._starts

    def holding(self, cue: bytes) -> Iterator[int]:
        """Numbers of the lines that hold a cue in small letters."""
        small, starts = self.small, self.starts
        at = small.find(cue)
        while at >= 0:
            number = bisect_right(starts, at) - 1
            yield number
            at = small.find(cue, starts[number + 1])

    def names(self, pattern: re.Pattern[bytes]) -> Iterator[tuple[int, bytes]]:
        """Numbers of the lines in which a pattern matches, and the word with the first match of each."""
        data, starts, end = self.data, self.starts, 0
        for found in pattern.finditer(data):
            begin = found.start()
            if begin >= end:
                number = bisect_right(starts, begin) - 1
                start, end = starts[number], starts[number + 1]
                yield number, data[max(data.rfind(b" ", start, begin), start) : found.end()][-_LONGEST_NAME:]

    @property
    def clean(self) -> bool:
        """Whether the lines stand in the text as `plain` leaves them."""
        return len(self.data.translate(None, _CONTROL)) == len(self.data) and not _COLOUR.search(self.data)


class LineFilter:
    """Chooses lines; those that differ from known ones in digits only are judged once."""

    def __init__(self, table: Messages) -> None:
        self._table = table
        self._words = _words_of(table)
        self._common: set[bytes] = set()
        """Lines without digits that are not worth reading."""
        self._room = _MOST_BYTES
        """Bytes of such lines that may still be remembered."""
        self._keys: dict[Hashable, int] = {}
        """By rank, type of exception, and the wordings whose cue is there."""
        self._worths: dict[Hashable, Worth] = {}
        """By the same in the order in which it was found."""
        self._count = count()

    def chosen(self, pieces: list[bytes], bares: list[bytes]) -> tuple[dict[int, Worth], list[int]]:
        """The numbers of pieces that are worth reading, and of those that were not seen before.

        `bares` are the pieces as `bare` leaves them.
        """
        common = self._common
        fresh = [index for index, key in enumerate(bares) if key not in common]
        if not fresh:
            return {}, fresh
        text = _Lines([pieces[index] for index in fresh])
        hits, changeable = self._hits(text, [bares[index] for index in fresh])
        if self._room > 0:
            left = set(range(len(fresh))).difference(hits, changeable)
            dull = {bares[fresh[place]] for place in left}
            common.update(dull)
            self._room -= sum(map(len, dull))
        return self._worth(text, hits, changeable, fresh), fresh

    def _hits(self, text: _Lines, bares: list[bytes]) -> tuple[dict[int, tuple[object, ...]], set[int]]:
        """Why lines are worth reading, by their numbers; and those that may be worth it with other digits."""
        hits: dict[int, tuple[object, ...]] = {}
        small_bare = bare(text.small)
        names: list[bytes] = []
        dotted: list[bytes] = []
        varying: set[bytes] = set()
        clean: bool | None = None
        for item in self._words.candidates(set(small_bare.split())):
            sign = item.of
            if item.cue not in text.small:
                if item.bare != item.cue and item.bare in small_bare:
                    varying.add(item.bare)
            elif sign is _NAMED:
                names.append(_CAPITAL[item.cue])
            elif sign is _DOTTED:
                dotted.append(item.cue)
            else:
                if sign.digits or item.bare != item.cue:
                    varying.add(item.bare)
                if sign.pattern is not None:
                    clean = text.clean if clean is None else clean
                    if clean and not sign.required.may_match_bytes(text.data, text.small):
                        continue
                judged: dict[bytes, bool] = {}
                for place in text.holding(item.cue):
                    matches = None if sign.digits else judged.get(bares[place])
                    if matches is None:
                        matches = judged[bares[place]] = _matches(sign, text.lines[place])
                    if matches:
                        hits[place] = (*hits.get(place, ()), sign.name)
        if names := [name for name in names if name in text.data]:
            for place, name in text.names(_exception(tuple(sorted(names)))):
                hits[place] = (*hits.get(place, ()), name)
        if dotted:
            for place, name in text.names(_DOTTED_EXCEPTION):
                small = text.lines[place].lower()
                if any(word in small for word in dotted):
                    hits[place] = (*hits.get(place, ()), name)
        keys = small_bare.split(b"\n") if varying else []
        return hits, {place for part in varying for place, key in enumerate(keys) if part in key}

    def _worth(
        self, text: _Lines, hits: dict[int, tuple[object, ...]], changeable: set[int], fresh: list[int]
    ) -> dict[int, Worth]:
        """Lines by what is worth reading in them, and by the wordings whose cue they hold."""
        if not hits:
            return {}
        places = sorted(hits)
        joined = b"\n".join([text.lines[place] for place in places]).lower()
        items = self._table.words.candidates(set(bare(joined).split()))
        present = [(item.cue, item.of) for item in items if item.cue in joined]
        found = {}
        if len(self._worths) > _MOST_KEYS:
            self._worths.clear()
            self._keys.clear()
        worths = self._worths
        for place, small in zip(places, joined.split(b"\n"), strict=True):
            rank = _RANK.match(text.lines[place])
            numbers = [number for cue, number in present if cue in small]
            order = (rank and rank[1], place in changeable, hits[place], *numbers)
            worth = worths.get(order)
            if worth is None:
                key = (order[0], frozenset((*hits[place], *numbers)))
                number = self._keys.setdefault(key, next(self._count))
                worth = worths[order] = Worth(number, place in changeable)
            found[fresh[place]] = worth
        return found


def _matches(sign: _Sign, line: bytes) -> bool:
    if sign.pattern is None:
        return True
    text = plain(text_of(line))
    return sign.required.may_match(text) and sign.pattern.search(text) is not None


@lru_cache(maxsize=256)
def _exception(words: tuple[bytes, ...]) -> re.Pattern[bytes]:
    """Finds names of exceptions that hold one of these words."""
    return re.compile(rb"(?:%b)\w*(?:\(\w{1,80}\))?(?::|[^\S\n]*$)" % b"|".join(words), re.MULTILINE)


@lru_cache(maxsize=4)
def _words_of(table: Messages) -> CueWords[_Sign]:
    """The words by which lines are chosen, made once a table: that takes as long as reading a short log."""
    return CueWords(_signs(table))


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
            wide = _wider(message.pattern)
            required = required_text(wide.pattern)
            sign = _Sign(f"{number}", wide, required, _asks_for_digits(message.pattern))
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
