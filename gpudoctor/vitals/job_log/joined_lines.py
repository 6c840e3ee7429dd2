"""Lines that are searched all at once, and their words: one search of many lines costs less than many."""

import re
from bisect import bisect_right
from collections.abc import Iterator
from functools import cached_property, lru_cache
from itertools import accumulate, repeat
from operator import add
from typing import Any

from gpudoctor.vitals.job_log.words import Cued, words_of

_LONGEST_NAME = 200
_DOTTED_EXCEPTION = re.compile(rb"\.(?:[A-Z]\w*|[a-z]*error)(?:\(\w{1,80}\))?: ")
_CONTROL = bytes({*range(9), 11, 12, *range(14, 32), 127})
_COLOUR = re.compile(rb"\[(?:\d{1,3}(?:;\d{1,3})*)?m")
"""What `plain` takes out of a line; the second is a colour that lost its escape."""
_RARE = 16
"""Lines of which one holds a text, for it to be looked for in all of them at once."""


class JoinedLines:
    """Lines and what they are together, to search them all at once."""

    def __init__(self, lines: list[bytes], bares: list[bytes]) -> None:
        self.lines, self.bares = lines, bares
        self.data = b"\n".join(lines)
        self.small = self.data.lower()
        # The words are far fewer than the lines: what they do not hold is not looked for in the lines.
        self.words = b"\n".join(words_of(bares))
        self.small_words = self.words.lower()
        self._starts: list[int] = []
        self._small_text: list[str] = []

    def may_hold(self, item: Cued[Any]) -> bool:
        """Whether the words of the lines hold those of a cue."""
        return all(part in self.small_words for part in item.parts)

    def may_hold_bare(self, part: bytes) -> bool:
        """Whether the lines may hold a text without digits, by their words: its blanks stand between words."""
        first, *others = part.split(b" ")
        if not others:
            return first in self.small_words
        words = b"\n%b\n" % self.small_words
        *between, last = others
        sought = [first + b"\n", *(b"\n%b\n" % word for word in between if word), b"\n" + last]
        return all(each in words for each in sought)

    def holds(self, item: Cued[Any]) -> bool:
        """Whether a line holds a cue."""
        return self.may_hold(item) and (item.is_word or item.cue in self.small)

    @cached_property
    def small_bare(self) -> bytes:
        """Small letters without digits."""
        return b"\n".join(self.bares).lower()

    @property
    def small_text(self) -> list[str]:
        """Small letters, each byte as a character: Python searches short texts faster than short bytes."""
        if not self._small_text:
            self._small_text = self.small.decode("latin-1").split("\n")
        return self._small_text

    @property
    def starts(self) -> list[int]:
        """Where each line begins."""
        if not self._starts:
            lengths = map(add, map(len, self.lines), repeat(1))
            self._starts = [0, *accumulate(lengths)]
        return self._starts

    def holding(self, cue: bytes) -> Iterator[int]:
        """Numbers of the lines that hold a cue in small letters."""
        small = self.small
        if small.count(cue) * _RARE > len(self.lines):
            sought = cue.decode("latin-1")
            yield from [number for number, line in enumerate(self.small_text) if sought in line]
            return
        starts = self.starts
        at = small.find(cue)
        while at >= 0:
            number = bisect_right(starts, at) - 1
            yield number
            at = small.find(cue, starts[number + 1])

    def names(self, words: tuple[bytes, ...]) -> dict[int, tuple[str, ...]]:
        """The first exception that a line names with one of these words, by the numbers of such lines."""
        if sum(map(self.data.count, words)) * _RARE < len(self.lines):
            return self._rare_names(_exception(words))
        search = _exception(words).search
        known: dict[bytes, tuple[str, ...]] = {}
        found: dict[int, tuple[str, ...]] = {}
        # The last line up to its exception and the colon: no line that begins so has another one first.
        head = b"\n"
        of_head: tuple[str, ...] = ()
        for number, line in enumerate(self.lines):
            if line.startswith(head):
                found[number] = of_head
            elif match := search(line):
                begin, end = match.span()
                name = line[line.rfind(b" ", 0, begin) + 1 : end]
                names = known.get(name)
                if names is None:
                    names = known[name] = (name[-_LONGEST_NAME:].decode("latin-1"),)
                found[number] = names
                if line.endswith(b":", 0, end):
                    head, of_head = line[:end], names
        return found

    def dotted_names(self) -> dict[int, tuple[str, ...]]:
        """The same of exceptions with a dotted name and a message."""
        return self._rare_names(_DOTTED_EXCEPTION)

    def _rare_names(self, pattern: re.Pattern[bytes]) -> dict[int, tuple[str, ...]]:
        data, starts, end = self.data, self.starts, 0
        names: dict[int, tuple[str, ...]] = {}
        for found in pattern.finditer(data):
            begin = found.start()
            if begin >= end:
                number = bisect_right(starts, begin) - 1
                start, end = starts[number], starts[number + 1]
                name = data[max(data.rfind(b" ", start, begin) + 1, start) : found.end()][-_LONGEST_NAME:]
                names[number] = (name.decode("latin-1"),)
        return names

    @property
    def clean(self) -> bool:
        """Whether the lines stand in the text as `plain` leaves them."""
        return len(self.data.translate(None, _CONTROL)) == len(self.data) and not _COLOUR.search(self.data)


@lru_cache(maxsize=256)
def _exception(words: tuple[bytes, ...]) -> re.Pattern[bytes]:
    """Finds names of exceptions that hold one of these words, in many lines."""
    return re.compile(rb"(?:%b)\w*(?:\(\w{1,80}\))?(?::|[^\S\n]*$)" % b"|".join(words), re.MULTILINE)
