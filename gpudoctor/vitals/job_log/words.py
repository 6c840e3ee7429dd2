"""Which cues a text may hold, by its words: a log has millions of lines and few thousand different words."""

from collections.abc import Iterable, Sequence
from typing import Generic, NamedTuple, TypeVar

_VARYING = b"0123456789.+-"
"""What differs between the lines of a loop."""
_SMALL = bytes(range(256)).lower()
_MOST_WORDS = 200_000
"""Words that are remembered."""
_LONGEST_WORD = 200

T = TypeVar("T")


def bare(raw: bytes) -> bytes:
    """Bytes in small letters, without digits and signs."""
    return raw.translate(_SMALL, _VARYING)


class Cued(NamedTuple, Generic[T]):
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
        self._shortest: list[bytes] = []
        for anchor in sorted(self._by_anchor, key=len):
            if not any(shorter in anchor for shorter in self._shortest):
                self._shortest.append(anchor)
        """Every word with an anchor has one of these."""
        self.hot: dict[bytes, tuple[Cued[T], ...]] = {}
        """Words with an anchor."""
        self._cold: set[bytes] = set()

    def hot_words(self, words: Iterable[bytes]) -> set[bytes]:
        """Words of a text that have an anchor; `hot` says whose."""
        rest = set(words) - self._cold
        if not rest:
            return rest
        new = [word for word in rest if word not in self.hot]
        if new:
            found = self._classify(new)
            rest = {word for word in rest if word in self.hot or word in found}
            self.hot.update(found)
        return rest

    def of_text(self, small: bytes) -> Iterable[T]:
        """What a text in small letters has a cue of."""
        return self.of_words(bare(small).split(), small)

    def of_words(self, words: Iterable[bytes], small: bytes) -> Iterable[T]:
        """The same for a text whose words, as `bare` leaves them, are known."""
        items = [item for word in self.hot_words(words) for item in self.hot[word]]
        return [item.of for item in (*items, *self._always) if item.cue in small]

    def _classify(self, new: Sequence[bytes]) -> dict[bytes, tuple[Cued[T], ...]]:
        """The words with an anchor among new ones. The others are remembered."""
        text = b"\n".join(new)
        marked: set[bytes] = set()
        for anchor in self._shortest:
            at = text.find(anchor)
            while at >= 0:
                end = text.find(b"\n", at)
                end = end if end >= 0 else len(text)
                marked.add(text[text.rfind(b"\n", 0, at) + 1 : end])
                at = text.find(anchor, end)
        if len(self._cold) > _MOST_WORDS:
            self._cold.clear()
        self._cold.update(word for word in new if word not in marked and len(word) <= _LONGEST_WORD)
        if len(self.hot) > _MOST_WORDS // 4:
            self.hot.clear()
        return {
            word: tuple(item for anchor, items in self._by_anchor.items() if anchor in word for item in items)
            for word in marked
        }
