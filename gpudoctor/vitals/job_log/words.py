"""Which cues a text may hold, by its words: a log has millions of lines and few thousand different words."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

_VARYING = b"0123456789.+-"
"""What differs between the lines of a loop."""
_MOST_WORDS = 200_000
"""Words that are remembered."""
_LONGEST_WORD = 200
_AT_ONCE = 250
"""Lines that are split at once: many small objects cost more than they are."""
_HEX = b"abcdef,:;()[]{}"
"""Letters and signs of hashes and addresses, which are new in every line."""

T = TypeVar("T")


def bare(raw: bytes) -> bytes:
    """Bytes without digits and signs."""
    return raw.translate(None, _VARYING)


def words_of(lines: list[bytes]) -> set[bytes]:
    """The words of lines."""
    found: set[bytes] = set()
    for at in range(0, len(lines), _AT_ONCE):
        found.update(b"\n".join(lines[at : at + _AT_ONCE]).split())
    return found


@dataclass(frozen=True, slots=True)
class Cued(Generic[T]):
    """Something that a text can be about only if it holds a cue."""

    cue: bytes
    bare: bytes
    """The cue as `bare` leaves it."""
    of: T


class CueWords(Generic[T]):
    """Finds what a text may be about: of each cue the longest word is looked for in the words of the text."""

    def __init__(self, cues: Iterable[tuple[bytes, T]]) -> None:
        self._by_anchor: dict[bytes, list[Cued[T]]] = {}
        for cue, of in cues:
            anchor = max(bare(cue).split(), key=len, default=b"")
            self._by_anchor.setdefault(anchor, []).append(Cued(cue, bare(cue), of))
        self._always = self._by_anchor.pop(b"", [])
        """Cues without any word: numbers, signs, nothing."""
        self._anchors = [(anchor, _triples(anchor)) for anchor in self._by_anchor]
        self._hexless = all(anchor.strip(_HEX) for anchor in self._by_anchor)
        self._hot: dict[bytes, tuple[bytes, ...]] = {}
        """Words with anchors, and which."""
        self._cold: set[bytes] = set()

    def of_text(self, small: bytes) -> list[T]:
        """What a text in small letters has a cue of."""
        return [item.of for item in self.candidates(set(bare(small).split())) if item.cue in small]

    def candidates(self, words: set[bytes]) -> list[Cued[T]]:
        """What a text may have a cue of, by its words in small letters as `bare` leaves them."""
        if len(self._cold) > _MOST_WORDS or len(self._hot) > _MOST_WORDS // 4:
            self._cold.clear()
            self._hot.clear()
        rest = words - self._cold
        if self._hexless:
            rest = {word for word in rest if word.strip(_HEX)}
        new = rest.difference(self._hot)
        found = self._classify(new) if new else {}
        anchors = {anchor for word in rest for anchor in self._hot.get(word) or found.get(word, ())}
        return [item for anchor in anchors for item in self._by_anchor[anchor]] + self._always

    def _classify(self, new: set[bytes]) -> dict[bytes, tuple[bytes, ...]]:
        """The words with an anchor among new ones. All are remembered, but for the longest."""
        text = b"\n".join((b"", *new, b""))
        triples = _triples(text)
        found: dict[bytes, tuple[bytes, ...]] = {}
        for anchor, needed in self._anchors:
            at = text.find(anchor) if needed <= triples else -1
            while at >= 0:
                end = text.find(b"\n", at)
                word = text[text.rfind(b"\n", 0, at) + 1 : end]
                found[word] = (*found.get(word, ()), anchor)
                at = text.find(anchor, end)
        self._hot.update((word, anchors) for word, anchors in found.items() if len(word) <= _LONGEST_WORD)
        self._cold.update(word for word in new if word not in found and len(word) <= _LONGEST_WORD)
        return found


def _triples(text: bytes) -> set[tuple[int, int, int]]:
    """Which three letters follow one another."""
    return set(zip(text, text[1:], text[2:], strict=False))
