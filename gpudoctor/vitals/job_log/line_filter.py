"""Which lines of a log are worth reading: those that may hold a message, an exception or a stack dump.

Whether a line is worth it depends on the line alone, not on the lines around it.
"""

import re
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import count
from typing import Any, NamedTuple

from gpudoctor.model.log_message import Bearing
from gpudoctor.model.message_cues import cues_of
from gpudoctor.vitals.job_log.envelopes import HEADER
from gpudoctor.vitals.job_log.joined_lines import JoinedLines
from gpudoctor.vitals.job_log.line_prefix import plain
from gpudoctor.vitals.job_log.matching import Messages
from gpudoctor.vitals.job_log.opening import text_of
from gpudoctor.vitals.job_log.progress import DONE_CUES, WORLD_CUES
from gpudoctor.vitals.job_log.required_text import NOTHING_REQUIRED, RequiredText, required_text
from gpudoctor.vitals.job_log.words import Cued, CueWords

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
_SIGNS = frozenset(cue.decode() for cue, _ in _BEGINNINGS)
_RANK = re.compile(rb"\W{0,4}[a-z_]{0,20}(\d{1,6})\W")
_HEAD = 32
"""Bytes at the beginning of a line that hold what `_RANK` finds."""
_NUMBERED = re.compile(rb"\W{0,4}[a-z_]{0,20}\W")
"""How a line begins, its digits apart, in which `_RANK` may find something."""
_VARIES = object()
"""Stands for what differs between lines."""
_ONE_OF = 97
"""Of so many lines one is looked up first. A prime: the lines of a loop come in turn."""
_FEW_AGAIN = 10
"""If fewer than one of so many lines worth reading comes again, none is remembered."""
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
    def required(self) -> RequiredText:
        """What such a line holds."""
        return required_text(self.pattern.pattern) if self.of_wording and self.pattern else NOTHING_REQUIRED

    @cached_property
    def digits(self) -> bool:
        """Whether the pattern asks for certain digits."""
        return self.of_wording and self.source is not None and _asks_for_digits(self.source)


_NAMED, _DOTTED, _OF_JOB = _Sign("exception"), _Sign("dotted exception"), _Sign("job")


@dataclass(frozen=True, slots=True, eq=False)
class Worth:
    """A line that is worth reading."""

    key: int
    """The same for lines that likely say the same: rank, type of exception, wordings whose cue is there."""
    wordings: int
    """The same without the type of the exception."""
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
        self._keys: dict[Hashable, int] = {}
        """By rank, type of exception, and the wordings whose cue is there."""
        self._wordings: dict[Hashable, int] = {}
        """The same without the type of exception: far fewer, of which each stays what it is."""
        self._worths: dict[tuple[Hashable, ...], dict[Hashable, Worth]] = {}
        """By what all of some lines have, and by what each has beside it, as `_worth_of` takes both."""
        self._room_for_keys = _MOST_KEYS
        self._count = count()

    def chosen(self, pieces: list[bytes], bares: list[bytes]) -> Chosen:
        """Which pieces are worth reading; `bares` are the pieces as `bare` leaves them."""
        if self._room_for_keys < 0:
            self._room_for_keys = _MOST_KEYS
            self._worths.clear()
            self._keys.clear()
            self._known.clear()
            if len(self._wordings) > _MOST_KEYS:
                self._wordings.clear()
        common, known = self._common, self._known
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
        if len(fresh) < len(bares):
            pieces, bares = [pieces[index] for index in fresh], [bares[index] for index in fresh]
        text = JoinedLines(pieces, bares)
        hits, changeable, wordings, about_job = self._hits(text)
        if self._room > 0:
            dull = {text.bares[place] for place in set(range(len(fresh))).difference(hits, changeable)}
            common.update(dull)
            self._room -= sum(map(len, dull))
        self._worth(text, hits, changeable, wordings, fresh, worths)
        return Chosen(worths, fresh, about_job)

    def _remember(self, lines: list[bytes], found: list[Worth], wordings: list[Cued[Any]]) -> None:
        """Keep what lines are worth of which others that differ in digits alone are worth the same."""
        different = len(set(lines))
        if different * _FEW_AGAIN > len(lines) * (_FEW_AGAIN - 1) or len(self._known) >= _MOST_KNOWN:
            return
        by_line = dict(zip(lines, found, strict=True))
        by_digits = {item.bare for item in wordings if item.bare != item.cue}
        for line, worth in by_line.items():
            if not (worth.by_digits or len(line) > _LONGEST_KNOWN or _NUMBERED.match(line)):
                small = line.lower()
                if not any(part in small for part in by_digits):
                    self._known[line] = worth

    def _hits(self, text: JoinedLines) -> tuple[dict[int, tuple[str, ...]], set[int], list[Cued[Any]], bool]:
        """Why lines are worth reading, by their numbers; those that may be worth it with other digits.

        And the wordings that they may have a cue of, and whether one of them may be about the job.
        """
        hits: dict[int, tuple[str, ...]] = {}
        wordings: list[Cued[Any]] = []
        about_job = False
        bares = text.bares
        names: list[bytes] = []
        dotted: list[bytes] = []
        varying: set[bytes] = set()
        clean: bool | None = None
        for item in self._words.candidates(set(text.small_words.split())):
            sign = item.of
            if not text.may_hold(item):
                continue
            if isinstance(sign, int):
                wordings.append(item)
                continue
            if item.bare != item.cue:
                varying.add(item.bare)
            if not text.holds(item):
                continue
            if sign is _NAMED:
                names.append(_CAPITAL[item.cue])
            elif sign is _OF_JOB:
                about_job = True
            elif sign is _DOTTED:
                dotted.append(item.cue)
            else:
                if sign.digits:
                    varying.add(item.bare)
                if sign.pattern is not None:
                    clean = text.clean if clean is None else clean
                    if clean and not (
                        sign.required.may_match_words(text.words, text.small_words)
                        and sign.required.may_match_bytes(text.data, text.small)
                    ):
                        continue
                judged: dict[bytes, bool] = {}
                for place in text.holding(item.cue):
                    matches = None if sign.digits else judged.get(bares[place])
                    if matches is None:
                        matches = judged[bares[place]] = _matches(sign, text.lines[place])
                    if matches:
                        hits[place] = (*hits.get(place, ()), sign.name)
        if names := [name for name in names if name in text.words]:
            found = text.names(tuple(sorted(names)))
            found.update((place, (*others, *found.get(place, ()))) for place, others in hits.items())
            hits = found
        if dotted:
            for place, found_names in text.dotted_names().items():
                small = text.lines[place].lower()
                if any(word in small for word in dotted):
                    hits[place] = (*hits.get(place, ()), *found_names)
        changeable: set[int] = set()
        varying = {part for part in varying if text.may_hold_bare(part)}
        if varying := {part for part in varying if part in text.small_bare}:
            keys = text.small_bare.decode("latin-1").split("\n")
            for part in varying:
                sought = part.decode("latin-1")
                changeable.update([place for place, key in enumerate(keys) if sought in key])
        return hits, changeable, wordings, about_job

    def _worth(
        self,
        text: JoinedLines,
        hits: dict[int, tuple[str, ...]],
        changeable: set[int],
        wordings: list[Cued[Any]],
        fresh: list[int],
        worths: dict[int, Worth],
    ) -> None:
        """Add lines by what is worth reading in them, and by the wordings whose cue they hold."""
        if not hits:
            return
        places = sorted(hits)
        whole = len(places) == len(text.lines)
        lines = text.lines if whole else [text.lines[place] for place in places]
        names = [hits[place] for place in places]
        heads = [line[:_HEAD] for line in lines]
        match = _RANK.match
        ranks = {head: _rank(match(head)) for head in set(heads)}
        joined = text.small if whole else b"\n".join(lines).lower()
        present = [item for item in wordings if item.cue in joined]
        sure = _held_by_all(present, ranks, set(names))
        smalls = joined.decode("latin-1").split("\n") if len(sure) < len(present) else []
        columns = [
            _column([ranks[head] for head in heads] if len(set(ranks.values())) > 1 else [*ranks.values()]),
            _column([place in changeable for place in places] if changeable else [False]),
            _column(names),
        ]
        for item in present:
            cue = item.cue.decode("latin-1")
            columns.append(
                _column([item.of] if item in sure else [item.of if cue in small else None for small in smalls])
            )
        found = self._found(columns, len(places))
        worths.update(zip([fresh[place] for place in places], found, strict=True))
        self._remember([text.bares[place] for place in places], found, wordings)

    def _found(self, columns: list[list[Any]], count: int) -> list[Worth]:
        """The worth of so many lines; a column has a value for each of them, or one for all."""
        varying = [column for column in columns if len(column) > 1]
        fixed = tuple(column[0] if len(column) == 1 else _VARIES for column in columns)
        known = self._worths.setdefault(fixed, {})
        orders = varying[0] if len(varying) == 1 else list(zip(*varying, strict=True)) if varying else [()]
        for order in set(orders).difference(known):
            values = iter((order,) if len(varying) == 1 else order)
            known[order] = self._worth_of(tuple(next(values) if item is _VARIES else item for item in fixed))
            self._room_for_keys -= 1
        found = list(map(known.__getitem__, orders))
        return found if varying else found * count

    def _worth_of(self, order: tuple[Any, ...]) -> Worth:
        rank, by_digits, hits, *numbers = order
        held = [number for number in numbers if number is not None]
        of_any_type = [hit if hit.isdigit() or hit in _SIGNS else "" for hit in hits]
        key = self._keys.setdefault((rank, frozenset((*hits, *held))), next(self._count))
        wordings = self._wordings.setdefault((rank, frozenset((*of_any_type, *held))), next(self._count))
        return Worth(key, wordings, by_digits, traceback=_BEGINNING in hits)


def _column(values: list[Any]) -> list[Any]:
    """One value for each line, or the one that all have."""
    return values if len(set(values)) > 1 else values[:1]


def _held_by_all(wordings: list[Cued[Any]], heads: Iterable[bytes], names: Iterable[tuple[str, ...]]) -> set[Cued[Any]]:
    """Wordings whose cue all lines hold, as far as their heads or what they name shows it."""
    small_heads = [head.lower() for head in heads]
    small_names = [
        # What is named by a number is a wording, and its number is not in the line.
        [name.encode("latin-1").lower() for name in each if not name.isdigit()] for each in names
    ]  # fmt: skip
    return {
        item
        for item in wordings
        if all(item.cue in head for head in small_heads)
        or all(any(item.cue in name for name in each) for each in small_names)
    }


@lru_cache(maxsize=4)
def _cue_words(table: Messages) -> CueWords[_Sign | int]:
    """Finds signs, and the wordings that a line may hold a cue of, by their numbers; made once for all logs."""
    numbers = ((cue.encode(), number) for number, item in enumerate(table.all) for cue in cues_of(item.message))
    return CueWords((*_signs(table), *numbers))


def _rank(found: re.Match[bytes] | None) -> bytes | None:
    return found[1] if found else None


def _matches(sign: _Sign, line: bytes) -> bool:
    if sign.pattern is None:
        return True
    text = plain(text_of(line))
    return sign.required.may_match(text) and sign.pattern.search(text) is not None


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
