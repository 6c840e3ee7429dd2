"""Reads a pickled dump of alike entries: one that differs in numbers only from an earlier one is not built.

A ring of 2,000 entries has a few dozen kinds. The bytes of an entry whose kind is known are taken out of the
pickle, and its numbers are read from their places. Python's reader builds what is left, in the same way as the
whole. A dump that is not as torch writes it gives None, and is to be loaded whole.
"""

import re
import struct
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from gpudoctor.vitals.plain_pickle import NotPlain, load_plain

_PROTOCOL = b"\x80\x02"
_FEWEST = 64
"""Entries from which on this is faster."""
_BEGIN = re.compile(rb"\}\((?:h.|j.{4})", re.DOTALL)
"""A dict and its first key, which is written as a reference from the second entry on."""
_SAMPLE = 1 << 16
"""Bytes in which the beginning of entries is sought."""
_TRIED = 2
"""Beginnings that may be those of entries: the most frequent ones."""
_MOST_LAYOUTS = 8
"""EntryLayouts of entries that are equally long."""
_MOST_TEXTS = 2_000
_MOST_NEW = 0.5
"""Share of entries that may be of a kind of their own."""
_CODES = re.compile(rb"[}\])(N\x88\x89\x85\x86\x87teuas]|h.|j.{4}|K.|M.{2}|J.{4}|\x8a\x08.{8}|G.{8}", re.DOTALL)
"""Instructions of an entry: all of a dump but those that write a text or remember a value."""
_PUSHES = frozenset(b"}])N\x88\x89hjKMJ\x8aG")
_MARK, _TUPLE = ord("("), ord("t")
_TO_MARK = frozenset(b"teu")
_TAKES = {0x85: (1, 1), 0x86: (2, 1), 0x87: (3, 1), ord("a"): (2, 1), ord("s"): (3, 1)}
"""Values that an instruction takes from the stack, and that it gives."""
_FORMATS = {ord("K"): (1, "B"), ord("M"): (1, "H"), ord("J"): (1, "i"), 0x8A: (2, "q")}
"""Bytes of an instruction before its number, and the number's form."""


@dataclass(slots=True, eq=False)
class EntryLayout:
    """Where the numbers of entries are that have the same instructions."""

    spans: tuple[tuple[int, str], ...]
    """Where each number begins in an entry's bytes, and its form."""
    values: tuple[int, ...]
    """Of each number: which of the entry's values it is."""
    size: int
    text: int
    """An integer of the entry's size, whose bits are those outside the numbers."""
    whole: set[int] = field(default_factory=set)
    """Texts that are known to be one whole entry."""
    readers: dict[tuple[int, ...], Callable[[bytes], tuple[int, ...]]] = field(default_factory=dict)

    def reader(self, which: tuple[int, ...]) -> Callable[[bytes], tuple[int, ...]]:
        """Reads some of the numbers, in their order, out of an entry's bytes."""
        read = self.readers.get(which)
        if read is None:
            form, at = "<", 0
            for begin, each in (self.spans[number] for number in which):
                form += f"{begin - at}x{each}"
                at = begin + struct.calcsize(f"<{each}")
            read = self.readers[which] = struct.Struct(f"{form}{self.size - at}x").unpack
        return read

    def numbers(self, part: bytes) -> tuple[int, ...]:
        """All numbers of an entry."""
        return self.reader(tuple(range(len(self.spans))))(part)


EntryLayouts: TypeAlias = dict[tuple[bytes, int], list[EntryLayout]]
"""By the beginning and the size of entries; of many dumps."""


@dataclass(frozen=True, slots=True)
class LoadedEntries:
    """A dump, its entries that are like others left out."""

    value: dict[str, Any]
    places: list[int]
    """For each entry of the dump: which of `value["entries"]` it is like."""
    parts: list[bytes | None]
    """The bytes that hold its own numbers; None for an entry that is itself in `value["entries"]`."""
    layouts: dict[int, EntryLayout]
    """Of each of `value["entries"]` that others are like."""
    names: dict[int, tuple[str, ...]]
    """The keys of the numbers of such a one."""


def load_entries(data: bytes, layouts: EntryLayouts) -> LoadedEntries | None:
    """The dump with one entry of each kind; None for one that is not so, or cannot be read.

    `layouts` is what other dumps of the job have shown.
    """
    if not data.startswith(_PROTOCOL):
        return None
    middle = len(data) // 2
    for begin, count in Counter(_BEGIN.findall(data, middle, middle + _SAMPLE)).most_common(_TRIED):
        if count < _FEWEST:
            return None
        found = _with_beginning(data, begin, layouts)
        if found is not None:
            return found
    return None


def _with_beginning(data: bytes, begin: bytes, layouts: EntryLayouts) -> LoadedEntries | None:
    """The same, if its entries and nothing else begin so."""
    head, *parts = data.split(begin)
    built: list[bytes] = []
    places: list[int] = []
    own: list[bytes | None] = []
    alike: dict[int, EntryLayout] = {}
    known: dict[tuple[int, int], int] = {}
    """By the size and the text of an entry: the one that is built."""
    most = _FEWEST + int(len(parts) * _MOST_NEW)
    number = int.from_bytes
    of_size: list[EntryLayout] = []
    size = -1
    for part in parts:
        if len(part) != size:
            size = len(part)
            of_size = layouts.get((begin, size), [])
        value = number(part, "little")
        for layout in of_size:
            place = known.get((size, value & layout.text))
            if place is not None:
                places.append(place)
                own.append(part)
                alike[place] = layout
                break
        else:
            place = len(built)
            if place > most:
                return None
            built.append(part)
            places.append(place)
            own.append(None)
            own_layout = _layout(begin, part, value, of_size)
            if own_layout is not None:
                known[size, value & own_layout.text] = place
                if own_layout not in of_size:
                    layouts.setdefault((begin, size), of_size).append(own_layout)
    if len(built) == len(parts):
        return None
    try:
        dump = load_plain(begin.join([head, *built]))
    except NotPlain:
        return None  # the whole says why
    entries = dump.get("entries") if type(dump) is dict else None
    # The first entry begins otherwise: the keys are texts there, and references behind it.
    if type(entries) is not list or (first := len(entries) - len(built)) < 0:
        return None
    names = _names(entries[first:], built, alike)
    if names is None:
        return None
    return LoadedEntries(
        dump,
        [*range(first), *(first + place for place in places)],
        [*([None] * first), *own],
        {first + place: layout for place, layout in alike.items()},
        {first + place: found for place, found in names.items()},
    )


def _names(entries: list[Any], built: list[bytes], alike: dict[int, EntryLayout]) -> dict[int, tuple[str, ...]] | None:
    """The keys of the numbers; None where the bytes are not these entries."""
    found = {}
    for place, layout in alike.items():
        entry = entries[place]
        if type(entry) is not dict or len(entry) <= max(layout.values):
            return None
        keys = list(entry)
        names = found[place] = tuple(keys[at] for at in layout.values)
        if layout.numbers(built[place]) != tuple(entry[name] for name in names):
            return None
    return found


def _layout(begin: bytes, part: bytes, value: int, of_size: list[EntryLayout]) -> EntryLayout | None:
    """The layout of an entry; None for bytes that are not one, or of which none can be alike."""
    for layout in of_size:
        if value & layout.text in layout.whole:
            return layout
    found = _spans(begin, part)
    if found is None:
        return None
    spans, values = found
    same = next((item for item in of_size if item.spans == spans), None)
    if same is not None:
        layout = same
    else:
        if len(of_size) >= _MOST_LAYOUTS:
            return None
        mask = bytearray(b"\xff" * len(part))
        for at, form in spans:
            width = struct.calcsize(f"<{form}")
            mask[at : at + width] = bytes(width)
        layout = EntryLayout(spans, values, len(part), int.from_bytes(mask, "little"))
    if len(layout.whole) < _MOST_TEXTS:
        layout.whole.add(value & layout.text)
    return layout


def _spans(begin: bytes, part: bytes) -> tuple[tuple[tuple[int, str], ...], tuple[int, ...]] | None:
    """Where an entry's own numbers are behind its beginning, and which of its values they are.

    None for bytes that are not one whole dict without a new text: another entry cannot be like these.
    """
    data, at = begin + part, 0
    depth = 0
    """Values on the stack."""
    marks: list[int] = []
    spans: list[tuple[int, str]] = []
    values: list[int] = []
    match = _CODES.match
    while at < len(data):
        found = match(data, at)
        if found is None:
            return None
        code = data[at]
        if code in _PUSHES:
            if code in _FORMATS and marks == [1] and depth % 2 == 0:
                before, form = _FORMATS[code]
                spans.append((at + before - len(begin), form))
                values.append(depth // 2 - 1)
            depth += 1
        elif code == _MARK:
            marks.append(depth)
        elif code in _TO_MARK:
            if not marks:
                return None
            kept = marks.pop()
            depth = kept + (code == _TUPLE)
        else:
            taken, given = _TAKES[code]
            if depth - (marks[-1] if marks else 0) < taken:
                return None
            depth += given - taken
        if depth < 1:
            return None
        at = found.end()
    if marks or depth != 1 or not spans:
        return None
    return tuple(spans), tuple(values)
