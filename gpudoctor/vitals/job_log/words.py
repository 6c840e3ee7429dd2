"""Which cues a text may hold, by its words: a log has millions of lines and few thousand different words."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Generic, TypeVar

_VARYING = b"0123456789.+-"
"""What differs between the lines of a loop."""
_MOST_WORDS = 200_000
"""Words that are remembered."""
_LONGEST_WORD = 200
_FEW = 400
"""Bytes of new words up to which all parts of each are looked up."""
_HEX = b"abcdef,:;()[]{}"
"""Letters and signs of hashes and addresses, which are new in every line."""
_LONG_TEXT = 1 << 16
_SAMPLE, _COMMON = 24, 8
"""Lines of a text in which shared runs are sought; of so many one has a run that many share."""
_MOST_RUNS, _SHORTEST_RUN = 3, 3
"""Runs that are taken out, and their words."""

T = TypeVar("T")


def bare(raw: bytes) -> bytes:
    """Bytes without digits and signs."""
    return raw.translate(None, _VARYING)


def words_of(text: bytes) -> set[bytes]:
    """The words of lines. Runs of words that many lines share are taken out before the rest is split."""
    if len(text) < _LONG_TEXT:
        return set(text.split())
    found: set[bytes] = set()
    rest = b" " + text.replace(b"\n", b" \n ") + b" "
    for run in _shared_runs(text):
        without = rest.replace(b" %b " % run, b"  ")
        if len(without) < len(rest):
            rest = without
            found.update(run.split())
    found.update(rest.split())
    return found


def _shared_runs(text: bytes) -> list[bytes]:
    """Runs of words, between single blanks, that many lines of a text have; those that save most."""
    runs: Counter[bytes] = Counter()
    split: list[list[bytes]] = []
    for part in range(_SAMPLE):
        begin = text.find(b"\n", part * len(text) // _SAMPLE) + 1
        end = text.find(b"\n", begin)
        if 0 < begin < end and end - begin < _LONGEST_WORD * 10:
            split.append(text[begin:end].split(b" "))
    least = max(2, len(split) // _COMMON)
    counts = Counter(word for words in split for word in set(words) if word)
    for words in split:
        shared = groupby(words, lambda word: counts[word] >= least)
        runs.update({b" ".join(group) for is_shared, group in shared if is_shared})
    saved = {run: times * run.count(b" ") for run, times in runs.items() if times >= least}
    long = [run for run in sorted(saved, key=lambda run: -saved[run]) if run.count(b" ") >= _SHORTEST_RUN - 1]
    return long[:_MOST_RUNS]


@dataclass(frozen=True, slots=True)
class Cued(Generic[T]):
    """Something that a text can be about only if it holds a cue."""

    cue: bytes
    bare: bytes
    """The cue as `bare` leaves it."""
    whole: frozenset[bytes]
    """Words that a text with the cue has: those between two blanks of it."""
    of: T


class CueWords(Generic[T]):
    """Finds what a text may be about: of each cue the longest word is looked for in the words of the text."""

    def __init__(self, cues: Iterable[tuple[bytes, T]]) -> None:
        self._by_anchor: dict[bytes, list[Cued[T]]] = {}
        for cue, of in cues:
            anchor = max(bare(cue).split(), key=len, default=b"")
            whole = frozenset(word for part in cue.split(b" ")[1:-1] for word in bare(part).split())
            self._by_anchor.setdefault(anchor, []).append(Cued(cue, bare(cue), whole, of))
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

    def _classify(self, new: Sequence[bytes]) -> dict[bytes, tuple[bytes, ...]]:
        """The words with an anchor among new ones. The others are remembered."""
        marked: dict[bytes, list[tuple[int, bytes]]] = {}
        if sum(map(len, new)) <= _FEW:  # in many words the anchors are looked for at once
            pairs = [(part, word) for word in new for part in self._parts(word)]
        else:
            text = b"\n".join(new)
            pairs = [(short, word) for short in self._within for word in _lines_with(text, short)]
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
