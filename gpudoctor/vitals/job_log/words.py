"""Which cues a text may hold, by its words: a log has millions of lines and few thousand different words."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from operator import methodcaller
from typing import Generic, TypeVar

_VARYING = b"0123456789.+-"
"""What differs between the lines of a loop."""
_MOST_WORDS = 200_000
"""Words that are remembered."""
_LONGEST_WORD = 200
_AT_ONCE = 250
"""Lines that are split at once."""
_FEW = 400
"""Bytes of new words up to which all parts of each are looked up."""
_SAMPLE = 48
"""Lines among which phrases are sought that come again in many others."""
_LEAST_SAVED = 1.5
"""Words of a phrase for each line of all, the first one apart, below which it is split like the rest."""
_MOST_PHRASES = 8
_HEX_LETTERS = b"abcdef"
_FEW_RESTS = 2
"""Without these letters words are looked up if fewer than one of so many is left."""
_FEW_PARTS = 60
"""Parts of words up to which each is looked for by itself."""
_HEX = _HEX_LETTERS + b",:;()[]{}"
"""Letters and signs of hashes and addresses, which are new in every line."""

T = TypeVar("T")


def bare(raw: bytes) -> bytes:
    """Bytes without digits and signs."""
    return raw.translate(None, _VARYING)


def words_of(lines: list[bytes]) -> set[bytes]:
    """The words of lines. Of some lines at a time: so many small objects at once cost more than they are.

    A phrase of many lines is taken out of them first, and split once.
    """
    phrases = _phrases(lines)
    found = set(b"".join(phrases).split())
    for at in range(0, len(lines), _AT_ONCE):
        text = b"\n".join((b"", *lines[at : at + _AT_ONCE], b""))
        for phrase in phrases:
            text = text.replace(phrase, b"\n")
        found.update(text.split())
    return found


def _phrases(lines: list[bytes]) -> list[bytes]:
    """Words that follow one another in many lines, with the blanks before, between and behind them."""
    if len(lines) <= _AT_ONCE:
        return []
    sample = [line.split(b" ") for line in lines[:: -(-len(lines) // _SAMPLE)]]
    lines_with = Counter(word for words in sample for word in set(words))
    usual = {word for word, times in lines_with.items() if times * (_MOST_PHRASES // 2) >= len(sample)}
    found: Counter[bytes] = Counter()
    for words in sample:
        run: list[bytes] = []
        begin = b"\n"
        for word in words:
            if word in usual:
                run.append(word)
            else:
                found[_phrase(begin, run, b" ")] += 1
                run, begin = [], b" "
        found[_phrase(begin, run, b"\n")] += 1
    saved = {phrase: times * (len(phrase.split()) - 1) for phrase, times in found.items()}
    often = [phrase for phrase, words in saved.items() if words >= _LEAST_SAVED * len(sample)]
    return sorted(often, key=len, reverse=True)[:_MOST_PHRASES]


def _phrase(begin: bytes, words: list[bytes], end: bytes) -> bytes:
    return b"%b%b%b" % (begin, b" ".join(words), end)


@dataclass(frozen=True, slots=True)
class Cued(Generic[T]):
    """Something that a text can be about only if it holds a cue."""

    cue: bytes
    bare: bytes
    """The cue as `bare` leaves it."""
    whole: frozenset[bytes]
    """Words that a text with the cue has: those between two blanks of it."""
    parts: tuple[bytes, ...]
    """What words of such a text hold: the words of the cue, of which the first and the last may be cut."""
    of: T

    @property
    def is_word(self) -> bool:
        """Whether every text that has a word with these parts has the cue: it is one word without digits."""
        return self.parts == (self.cue,)


class CueWords(Generic[T]):
    """Finds what a text may be about: of each cue the longest word is looked for in the words of the text."""

    def __init__(self, cues: Iterable[tuple[bytes, T]]) -> None:
        self._by_anchor: dict[bytes, list[Cued[T]]] = {}
        for cue, of in cues:
            parts = bare(cue).split()
            anchor = max(parts, key=len, default=b"")
            whole = frozenset(word for part in cue.split(b" ")[1:-1] for word in bare(part).split())
            item = Cued(cue, bare(cue), whole, tuple(parts), of)
            self._by_anchor.setdefault(anchor, []).append(item)
        self._always = self._by_anchor.pop(b"", [])
        """Cues without any word: numbers, signs, nothing."""
        self._within: dict[bytes, list[tuple[int, bytes]]] = {}
        places = {anchor: place for place, anchor in enumerate(self._by_anchor)}
        waiting = sorted(places, key=len)
        text = b"\n".join(waiting)
        held: set[bytes] = set()
        for short in waiting:
            if short not in held:
                within = _lines_with(text, short)
                held.update(within)
                self._within[short] = sorted((places[anchor], anchor) for anchor in within)
        """Every word with an anchor has one of these; the anchors that hold it, with their places."""
        self._lengths = sorted(set(map(len, self._within)))
        self._hexless = all(anchor.strip(_HEX) for anchor in self._within)
        self._hot: dict[bytes, tuple[bytes, ...]] = {}
        """Words with anchors, and which."""
        self._cold: set[bytes] = set()
        self._rests = [(part, rest, _triples(rest)) for part in self._within for rest in [_without_hex(part)]]
        """The shortest anchors, what hexadecimal letters leave of them, and its triples of letters."""
        self._triples = [(part, _triples(part)) for part in self._within]
        self._any_part: re.Pattern[bytes] | None = None
        """Finds the shortest anchors; it is compiled once a log has many words that are not alike."""
        self._by_rest: dict[bytes, tuple[bytes, ...]] = {}
        """By what hexadecimal letters leave of a word: the shortest anchors that it may hold."""

    def of_text(self, small: bytes) -> Iterable[T]:
        """What a text in small letters has a cue of."""
        return [item.of for item in self.candidates(set(bare(small).split())) if item.cue in small]

    def candidates(self, words: set[bytes]) -> list[Cued[T]]:
        """What a text may have a cue of, by its words in small letters as `bare` leaves them."""
        if len(self._cold) > _MOST_WORDS or len(self._hot) > _MOST_WORDS // 4:
            self._cold.clear()
            self._hot.clear()
        hot = self._hot
        rest = words - self._cold
        if self._hexless:
            rest = {word for word in rest if word.strip(_HEX)}
        new = [word for word in rest if word not in hot]
        found = self._classify(new) if new else {}
        anchors = dict.fromkeys(anchor for word in rest for anchor in hot.get(word) or found.get(word, ()))
        hot.update((word, which) for word, which in found.items() if len(word) <= _LONGEST_WORD)
        items = [item for anchor in anchors for item in self._by_anchor[anchor] if item.whole <= words]
        return items + self._always

    def _classify(self, new: list[bytes]) -> dict[bytes, tuple[bytes, ...]]:
        """The words with an anchor among new ones. The others are remembered."""
        marked: dict[bytes, list[tuple[int, bytes]]] = {}
        if sum(map(len, new)) <= _FEW:  # in many words the anchors are looked for at once
            pairs = [(part, word) for word in new for part in self._parts(word)]
        else:
            pairs = self._parts_of_many(new)
        for part, word in pairs:
            marked.setdefault(word, []).extend([item for item in self._within[part] if item[1] in word])
        self._cold.update(word for word in new if word not in marked and len(word) <= _LONGEST_WORD)
        return {word: tuple(dict(sorted(found)).values()) for word, found in marked.items()}

    def _parts(self, word: bytes) -> Iterator[bytes]:
        """The shortest anchors in a word."""
        within, end = self._within, len(word)
        for length in self._lengths:
            for at in range(end - length + 1):
                if word[at : at + length] in within:
                    yield word[at : at + length]

    def _parts_of_many(self, words: list[bytes]) -> list[tuple[bytes, bytes]]:
        """The shortest anchors in words, each with the word.

        Names of files with a hash are new in every line. Without hexadecimal letters they are alike.
        """
        rests = list(map(_without_hex, words))
        if len(set(rests)) * _FEW_RESTS > len(words):
            return self._parts_of_different(words)
        by_rest = self._by_rest
        if len(by_rest) > _MOST_WORDS:
            by_rest.clear()
        new = set(rests).difference(by_rest)
        text = b"\n".join(new)
        triples = _triples(text)
        found: dict[bytes, list[bytes]] = {rest: [] for rest in new}
        for part, of_part, needed in self._rests:
            if needed <= triples:
                for rest in _lines_with(text, of_part) if of_part else new:
                    found[rest].append(part)
        by_rest.update((rest, tuple(parts)) for rest, parts in found.items())
        pairs = [
            (part, word) for word, rest in zip(words, rests, strict=True) for part in by_rest[rest] if part in word
        ]
        for rest in new:
            if len(rest) > _LONGEST_WORD:
                del by_rest[rest]
        return pairs

    def _parts_of_different(self, words: list[bytes]) -> list[tuple[bytes, bytes]]:
        """The same of words that no hash makes different."""
        text = b"\n".join((b"", *words, b""))
        triples = _triples(text)
        parts = [part for part, needed in self._triples if needed <= triples]
        if len(parts) <= _FEW_PARTS:
            return [(part, word) for part in parts for word in _lines_with(text, part)]
        if self._any_part is None:
            self._any_part = re.compile(_one_of(self._within))
        matches = self._any_part.finditer(text)
        with_part = {text[text.rfind(b"\n", 0, at) + 1 : text.find(b"\n", at)] for at in map(_begin, matches)}
        return [(part, word) for word in with_part for part in self._parts(word)]


_begin = methodcaller("start")


def _one_of(parts: Iterable[bytes], shared: int = 2) -> bytes:
    """A pattern of all parts, none of which holds another; parts that begin alike share so many letters."""
    by_letter: dict[bytes, list[bytes]] = {}
    for part in sorted(parts):
        by_letter.setdefault(part[:1], []).append(part)
    return b"|".join(
        b"%b(?:%b)" % (re.escape(letter), _one_of([part[1:] for part in some], shared - 1))
        if shared and len(some) > 1
        else b"|".join(map(re.escape, some))
        for letter, some in by_letter.items()
    )


def _without_hex(word: bytes) -> bytes:
    return word.translate(None, _HEX_LETTERS)


def _triples(text: bytes) -> set[tuple[int, int, int]]:
    """Which three letters follow one another."""
    return set(zip(text, text[1:], text[2:], strict=False))


def _lines_with(text: bytes, part: bytes) -> list[bytes]:
    """The lines that hold a part, one at a time."""
    found: list[bytes] = []
    at = text.find(part)
    while at >= 0:
        end = text.find(b"\n", at)
        end = end if end >= 0 else len(text)
        found.append(text[text.rfind(b"\n", 0, at) + 1 : end])
        at = text.find(part, end)
    return found
