"""Which lines of a log are worth reading: those that may hold a message, an exception or a stack dump.

Whether a line is worth it depends on the line alone, not on the lines around it.
"""

import re
from bisect import bisect_right
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import accumulate, count, repeat
from operator import add
from typing import NamedTuple

from gpudoctor.model.log_message import Bearing
from gpudoctor.model.message_cues import cues_of
from gpudoctor.vitals.job_log.envelopes import HEADER
from gpudoctor.vitals.job_log.line_prefix import plain
from gpudoctor.vitals.job_log.matching import Messages
from gpudoctor.vitals.job_log.opening import text_of
from gpudoctor.vitals.job_log.progress import DONE_CUES, WORLD_CUES
from gpudoctor.vitals.job_log.words import CueWords, words_of

_MOST_BYTES = 16 << 20
"""Bytes of lines that are remembered."""
_MOST_KEYS = 20_000
_EXCEPTION_WORDS = (
    "Error", "Exception", "Exit", "Interrupt", "Timeout", "Failure", "Fault", "Failed", "Iteration", "Aborted",
    "Died", "Refused", "Unavailable", "Missing", "NotFound", "Invalid", "Unsupported", "Violation", "Rejected",
)  # fmt: skip
"""How the names of exceptions end (`tracebacks.py`)."""
_CAPITAL = {word.lower().encode(): word.encode() for word in _EXCEPTION_WORDS}
_DOTTED_WORDS = (
    b"error", b"exception", b"fail", b"kill", b"abort", b"cancel", b"timeout", b"signal", b"cannot", b"unable",
    b"terminat", b"fault", b"exit", b"corrupt", b"invalid", b"argument", b"assert", b"mismatch", b"interrupt",
    b"timed", b"could", b"found", b"such", b"bounds", b"memory",
)  # fmt: skip
"""Words of which the message of an exception with an unusual name has one."""
_DOTTED_EXCEPTION = re.compile(rb"\.(?:[A-Z]\w*|[a-z]*error)(?:\(\w{1,80}\))?: ")
_LONGEST_NAME = 200
TRACEBACK = HEADER.encode()
_BEGINNINGS: tuple[tuple[bytes, str | None], ...] = (
    (TRACEBACK.lower(), None),
    (b"exception ignored in", None),
    (b"exception in thread", None),
    (b"error in atexit", None),
    (b"what():", None),
    (b"(most recent call first)", None),
    (b" (idle", r"Thread \S+ \(idle"),
    (b" (active", r"Thread \S+ \(active"),
    (b"process ", r"Process \d{1,10}: "),
)
"""What begins a traceback, or a stack dump."""
_BEGINNING = _BEGINNINGS[0][0].decode()
_RANK = re.compile(rb"\W{0,4}[a-z_]{0,20}(\d{1,6})\W")
_NUMBERED = re.compile(rb"\W{0,4}[a-z_]{0,20}\W")
"""How a line begins, its digits apart, in which `_RANK` may find something."""
_FEW = 20
"""Lines up to which a pattern is looked for in each at once."""
_RARE = 16
"""Lines of which one holds a text, for it to be looked for in all of them at once."""
_ONE_OF = 97
"""Of so many lines one is looked up first. A prime: the lines of a loop come in turn."""
_MOST_KNOWN, _LONGEST_KNOWN = 20_000, 1_000
"""Lines worth reading that are remembered, and bytes of each."""


@dataclass(frozen=True, eq=False)
class _Sign:
    """What a cue may be of."""

    name: str
    """Of what it is; the number of a wording."""
    source: str | None = None
    """A pattern; it is compiled once a line holds the cue: most logs hold few of them."""
    of_wording: bool = False
    """Whether the pattern is a wording's, which asks for what stands around the message, too."""

    @cached_property
    def pattern(self) -> re.Pattern[str] | None:
        """Matches every line that is of it, and few others."""
        if self.source is None:
            return None
        return _wider(self.source) if self.of_wording else re.compile(self.source)

    @cached_property
    def digits(self) -> bool:
        """Whether the pattern asks for certain digits."""
        return self.of_wording and self.source is not None and _asks_for_digits(self.source)

    def matching(self, places: list[int], lines: list[bytes]) -> list[int]:
        """Which of the lines that hold the cue are of it."""
        if self.pattern is None:
            return places
        texts = [plain(text_of(lines[place])) for place in places]
        # The wider pattern has no anchors: if it is not in all of them together, it is in none.
        if len(places) > _FEW and not self.pattern.search("\n".join(texts)):
            return []
        return [place for place, text in zip(places, texts, strict=True) if self.pattern.search(text)]


_NAMED, _DOTTED, _OF_JOB = _Sign("exception"), _Sign("dotted exception"), _Sign("job")


@dataclass(frozen=True, slots=True, eq=False)
class Worth:
    """A line that is worth reading."""

    key: int
    """The same for lines that likely say the same: rank, type of exception, wordings whose cue is there."""
    by_digits: bool
    """Whether a line that differs in digits alone may mean something else."""
    traceback: bool
    """Whether a traceback may begin in it."""


class Chosen(NamedTuple):
    """What a filter says of lines."""

    worths: dict[int, Worth]
    """By its number in order, each line that is worth reading."""
    fresh: list[int]
    """The numbers of the lines that were not seen before."""
    about_job: bool
    """Whether one of these may say how many ranks there are, or that the training is complete."""


class LineFilter:
    """Chooses lines; those that differ from known ones in digits only are judged once."""

    def __init__(self, table: Messages) -> None:
        self._words = _cue_words(table)
        self._common: set[bytes] = set()
        """Lines without digits that are not worth reading."""
        self._room = _MOST_BYTES
        """Bytes of such lines that may still be remembered."""
        self._known: dict[bytes, Worth] = {}
        """Lines without digits that are worth reading, whatever their digits are."""
        self._worths: dict[Hashable, Worth] = {}
        self._keys: dict[Hashable, int] = {}
        """By rank, type of exception, and the wordings whose cue is there."""
        self._count = count()

    def chosen(self, pieces: list[bytes], bares: list[bytes]) -> Chosen:
        """Which pieces are worth reading; `bares` are the pieces as `bare` leaves them."""
        if len(self._worths) > _MOST_KEYS:
            for kept in (self._worths, self._known, self._keys):
                kept.clear()
        common, known = self._common, self._known
        if common.issuperset(bares):
            return Chosen({}, [], about_job=False)
        # Of lines that do not come again a sample is not known: then the others are not looked up.
        sample = bares[::_ONE_OF]
        fresh = list(range(len(bares)))
        worths: dict[int, Worth] = {}
        if not common.isdisjoint(sample):
            fresh = [index for index in fresh if bares[index] not in common]
        if not known.keys().isdisjoint(sample):
            worths = {index: known[bares[index]] for index in fresh if bares[index] in known}
            fresh = [index for index in fresh if index not in worths]
        if not fresh:
            return Chosen(worths, fresh, about_job=False)
        lines, bares = [pieces[index] for index in fresh], [bares[index] for index in fresh]
        hits, changeable, wordings, about_job = self._hits(lines, bares)
        if self._room > 0:
            dull = {bares[place] for place in set(range(len(fresh))).difference(hits, changeable)}
            common.update(dull)
            self._room -= sum(map(len, dull))
        for place in sorted(hits):
            line, by_digits = lines[place], place in changeable
            small = line.lower()
            held = frozenset(number for cue, number in wordings if cue in small)
            found = _RANK.match(line)
            worth = worths[fresh[place]] = self._worth(found and found[1], by_digits, frozenset(hits[place]), held)
            remembered = len(line) <= _LONGEST_KNOWN and len(known) < _MOST_KNOWN
            if remembered and not by_digits and not _NUMBERED.match(bares[place]):
                known[bares[place]] = worth
        return Chosen(worths, fresh, about_job)

    def _worth(self, rank: bytes | None, by_digits: bool, hits: frozenset[str], held: frozenset[int]) -> Worth:
        order = rank, by_digits, hits, held
        worth = self._worths.get(order)
        if worth is None:
            key = self._keys.setdefault((rank, hits, held), next(self._count))
            worth = self._worths[order] = Worth(key, by_digits, traceback=_BEGINNING in hits)
        return worth

    def _hits(
        self, lines: list[bytes], bares: list[bytes]
    ) -> tuple[dict[int, tuple[str, ...]], set[int], list[tuple[bytes, int]], bool]:
        """Why lines are worth reading, by their numbers; those that may be worth it with other digits.

        And the cues of wordings that they hold, and whether one of them may be about the job.
        """
        alike: dict[bytes, list[int]] = {}
        for place, line in enumerate(bares):
            alike.setdefault(line, []).append(place)
        groups = list(alike.values())
        text, one_of_each = _Lines(lines), _Lines([lines[places[0]] for places in groups])
        hits: dict[int, tuple[str, ...]] = {}
        wordings: list[tuple[bytes, int]] = []
        about_job = False
        names: list[bytes] = []
        dotted: list[bytes] = []
        varying: set[bytes] = set()
        for item in self._words.candidates({word.lower() for word in words_of(bares)}):
            sign, cue = item.of, item.cue
            digits = item.bare != cue or (isinstance(sign, _Sign) and sign.digits)
            if digits:
                varying.add(item.bare)
            if cue not in text.small:
                continue
            if isinstance(sign, int):
                wordings.append((cue, sign))
            elif sign is _NAMED:
                names.append(_CAPITAL[cue])
            elif sign is _OF_JOB:
                about_job = True
            elif sign is _DOTTED:
                dotted.append(cue)
            else:
                these = text if digits else one_of_each
                for place in sign.matching(list(these.holding(cue)), these.lines):
                    for each in (place,) if digits else groups[place]:
                        hits[each] = (*hits.get(each, ()), sign.name)
        if names := sorted(name for name in names if name in text.data):
            for place, name in text.named(_exception(tuple(names))):
                hits[place] = (*hits.get(place, ()), name)
        if dotted:
            for place, name in text.named(_DOTTED_EXCEPTION):
                if any(word in text.smalls[place] for word in dotted):
                    hits[place] = (*hits.get(place, ()), name)
        changeable: set[int] = set()
        if varying:
            of_any_digits = _Lines(bares)
            for part in varying:
                changeable.update(of_any_digits.holding(part))
        return hits, changeable, wordings, about_job


class _Lines:
    """Lines that are searched all at once: one search of many lines costs less than many."""

    def __init__(self, lines: list[bytes]) -> None:
        self.lines = lines
        self.data = b"\n".join(lines)
        self.small = self.data.lower()

    @cached_property
    def smalls(self) -> list[bytes]:
        """The lines in small letters."""
        return self.small.split(b"\n")

    @cached_property
    def starts(self) -> list[int]:
        """Where each line begins."""
        return [0, *accumulate(map(add, map(len, self.smalls), repeat(1)))]

    def holding(self, cue: bytes) -> Iterator[int]:
        """Numbers of the lines that hold a cue in small letters."""
        if self.small.count(cue) * _RARE > len(self.smalls):
            yield from [number for number, line in enumerate(self.smalls) if cue in line]
            return
        at = self.small.find(cue)
        while at >= 0:
            number = bisect_right(self.starts, at) - 1
            yield number
            at = self.small.find(cue, self.starts[number + 1])

    def named(self, pattern: re.Pattern[bytes]) -> Iterator[tuple[int, str]]:
        """The first exception that a line names, by the numbers of such lines."""
        end = 0
        for found in pattern.finditer(self.data):
            begin = found.start()
            if begin >= end:
                number = bisect_right(self.starts, begin) - 1
                start, end = self.starts[number], self.starts[number + 1]
                name = self.data[max(self.data.rfind(b" ", start, begin) + 1, start) : found.end()][-_LONGEST_NAME:]
                yield number, name.decode("latin-1")


@lru_cache(maxsize=256)
def _exception(words: tuple[bytes, ...]) -> re.Pattern[bytes]:
    """Finds names of exceptions that hold one of these words, in many lines."""
    return re.compile(rb"(?:%b)\w*(?:\(\w{1,80}\))?(?::|[^\S\n]*$)" % b"|".join(words), re.MULTILINE)


@lru_cache(maxsize=4)
def _cue_words(table: Messages) -> CueWords[_Sign | int]:
    """Finds signs, and the wordings that a line may hold a cue of, by their numbers; made once for all logs."""
    numbers = ((cue.encode(), number) for number, item in enumerate(table.all) for cue in cues_of(item.message))
    return CueWords((*_signs(table), *numbers))


def _signs(table: Messages) -> Iterator[tuple[bytes, _Sign]]:
    for cue, pattern in _BEGINNINGS:
        yield cue, _Sign(cue.decode(), pattern)
    for cue in _CAPITAL:
        yield cue, _NAMED
    for cue in _DOTTED_WORDS:
        yield cue, _DOTTED
    for cue in (*DONE_CUES, *WORLD_CUES):
        yield cue, _OF_JOB
    for number, item in enumerate(table.all):
        message = item.message
        if message.everywhere and message.bearing is not Bearing.HARMLESS:
            sign = _Sign(f"{number}", message.pattern, of_wording=True)
            for each in cues_of(message):
                yield each.encode(), sign


_CLASS = re.compile(r"\[\^?\]?(?:\\.|[^\]\\])*\]")
_ATOM = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|[\^$\"]")
_WIDER = {"^": "", "$": "", r"\b": "", r"\Z": "", r"\A": "", '"': r"\\*\"", r"\"": r"\\*\""}
"""What takes the place of anchors, and of quotation marks: JSON puts backslashes and letters before these."""
_LOOK = re.compile(r"\(\?<?[!=]")


def _wider(pattern: str) -> re.Pattern[str]:
    """A pattern that also matches where other text stands around: without anchors, and without looks around."""
    while (found := _LOOK.search(pattern)) is not None:
        pattern = pattern[: found.start()] + pattern[_closing(pattern, found.start()) + 1 :]
    return re.compile(_ATOM.sub(lambda found: _WIDER.get(found[0], found[0]), pattern))


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
