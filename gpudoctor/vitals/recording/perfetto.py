"""Perfetto traces in protobuf (`.pftrace`), as the events of a Chrome trace.

torch writes one for `prof.export_chrome_trace("trace.pftrace")` where the profiler reads CUPTI by itself
(github.com/pytorch/pytorch, `torch/csrc/profiler/cupti/monitor_pftrace.cpp`, August 2026). What the host did
are slices of a track for each thread, with Kineto's categories; what the device did are render stages
(`Kernel`, `Memcpy`, `Memset`, `Annotation`). Numbers of fields: github.com/google/perfetto,
`protos/perfetto/trace`.
"""

import os
import zlib
from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from gpudoctor.lang import say
from gpudoctor.model.external_files import RefusedFile, is_packed, open_unpacked, unpacked_most
from gpudoctor.model.read_limits import TRACE, TRACE_EVENT, TRACE_EVENTS, TRACE_VALUE, UNPACKED_RATIO
from gpudoctor.text import count
from gpudoctor.vitals.recording.chrome import Event, readable
from gpudoctor.vitals.recording.protobuf import Value, delimited, fields, signed

_PACKET = 1
"""The one field of a trace."""
_TIMESTAMP, _CLOCK, _SEQUENCE, _FLAGS, _CLEARED = 8, 58, 10, 13, 41
_SNAPSHOT, _SLICE, _INTERNED, _COMPRESSED, _STAGE, _DEFAULTS, _TRACK = 6, 11, 12, 50, 53, 59, 60
"""Fields of a packet."""
_NAMES, _CATEGORIES, _KEYS, _STAGES = 2, 1, 3, 24
"""Fields of interned data: names of slices, of categories, of annotations, of stages."""
_BEGIN, _END = 1, 2
"""Types of a slice's event."""
_BOOT_TIME = 6
_OF_SEQUENCE = range(64, 128)
"""Clocks that belong to the sequence of packets which describes them."""
_KINDS = {"Kernel": "kernel", "Memcpy": "gpu_memcpy", "Memset": "gpu_memset"}
"""torch's render stages and Kineto's categories. `Annotation` is a mirror of the host's, and no work."""
_FAR = 1 << 62
"""Nanoseconds: a century and a half."""
_HEAD = 64 << 10
_KNOWN = {
    _TIMESTAMP, _SEQUENCE, _FLAGS, _CLEARED, _CLOCK, _SNAPSHOT, _SLICE, _INTERNED, _COMPRESSED, _STAGE,
    _DEFAULTS, _TRACK, 33, 35, 36, 45, 87, 89,
}  # fmt: skip
"""Fields of the first packets: those above, and a recording's settings, statistics, host and identifier."""


def is_perfetto(path: Path) -> bool:
    """Whether a file begins with a packet of a Perfetto trace, packed by gzip or not."""
    try:
        with open_unpacked(path) as stream:
            if (stream.read(1) or b"") != b"\n":
                return False
        with open_unpacked(path) as stream:
            _, packet = next(delimited(stream, _HEAD), (0, b""))
            numbers = {number for number, _ in fields(packet)}
    except (OSError, ValueError):
        return False
    return bool(numbers) and numbers <= _KNOWN


def read_events(name: str, take: Callable[[Event], None]) -> list[str]:
    """Gives every slice and render stage of a trace to `take`; returns what it cannot show, a sentence each.

    Raises `UsageError` for a file that is no whole trace, `Unavailable` for one that is too large.
    """
    with readable(name, "a whole Perfetto trace"):
        size = os.stat(name).st_size
        most = unpacked_most(size, TRACE) if is_packed(name) else TRACE.most
        reader = _Reader(take)
        with open_unpacked(name) as stream:
            left = most
            for packets, (number, packet) in enumerate(delimited(stream, TRACE_VALUE.most), 1):
                left -= len(packet)
                if left < 0:
                    raise RefusedFile(_too_large(most))
                if packets > TRACE_EVENTS and packets * TRACE_EVENT > most - left:
                    raise RefusedFile("it is not a profiler trace: its packets are nearly empty")
                if number == _PACKET:
                    reader.packet(packet)
        return reader.finish()


def _too_large(most: int) -> str:
    if most < TRACE.most:
        return say(
            "it unpacks to more than {unpacked_ratio} times its size, which no file of this kind does",
            unpacked_ratio=UNPACKED_RATIO,
        )
    return say("it is {words}", words=TRACE.words)


@dataclass(slots=True)
class _Clock:
    """One clock, as a snapshot describes it: its nanoseconds lead to those of the trace."""

    scale: int
    offset: int
    incremental: bool
    now: int

    def reads(self, value: int) -> int:
        """Nanoseconds of the trace at this value of a packet."""
        if self.incremental:
            self.now += value * self.scale
            return self.now + self.offset
        return value * self.scale + self.offset


@dataclass(slots=True)
class _Sequence:
    """What packets of one sequence refer to."""

    names: dict[int, str] = field(default_factory=dict)
    categories: dict[int, str] = field(default_factory=dict)
    keys: dict[int, bytes] = field(default_factory=dict)
    stages: dict[int, str] = field(default_factory=dict)
    clocks: dict[int, _Clock] = field(default_factory=dict)
    clock: int = 0
    """The clock of packets that name none."""
    track: int = 0
    """The track of slices that name none."""


@dataclass(slots=True)
class _Track:
    """The begins and ends of the slices of one track, in the order of the file."""

    begins: "array[int]" = field(default_factory=lambda: array("q"))
    what: "array[int]" = field(default_factory=lambda: array("L"))
    """Place of name and category, for each begin."""
    numbers: "array[int]" = field(default_factory=lambda: array("q"))
    """The correlation of each begin, -1 where it has none."""
    ends: "array[int]" = field(default_factory=lambda: array("q"))

    def slices(self) -> Iterator[tuple[int, int, int, int]]:
        """Begin, end, place of its name and correlation of every slice that has both ends.

        Events need not be in the order of time: torch writes all begins of a track before its ends.
        """
        order = sorted(range(len(self.begins)), key=self.begins.__getitem__)
        stack: list[int] = []
        place = 0
        for end in sorted(self.ends):
            while place < len(order) and self.begins[order[place]] < end:
                stack.append(order[place])
                place += 1
            if not stack and place < len(order) and self.begins[order[place]] == end:
                stack.append(order[place])
                place += 1
            if stack:  # else it began before the trace
                one = stack.pop()
                yield self.begins[one], end, self.what[one], self.numbers[one]


class _Reader:
    """The packets of one trace, one by one."""

    def __init__(self, take: Callable[[Event], None]) -> None:
        self._take = take
        self._sequences: dict[int, _Sequence] = {}
        self._clocks: dict[int, _Clock] = {}
        self._tracks: dict[int, _Track] = {}
        self._threads: dict[int, tuple[int, int]] = {}
        """Process and thread of a track."""
        self._parents: dict[int, int] = {}
        self._whats: dict[tuple[str, str], int] = {}
        self._zero: int | None = None
        self._unnamed = 0
        self._copies = 0
        self._nested = False

    def packet(self, message: bytes) -> None:
        """One packet. Raises `ValueError` for what is none."""
        found: dict[int, Value] = {}
        for number, value in fields(message):
            if number == _COMPRESSED and isinstance(value, bytes):
                self._unpacked(value)
            else:
                found[number] = value
        sequence = self._sequences.setdefault(_int(found.get(_SEQUENCE)), _Sequence())
        if _int(found.get(_FLAGS)) & 1 or found.get(_CLEARED):
            for known in (sequence.names, sequence.categories, sequence.keys, sequence.stages):
                known.clear()
            sequence.clock = sequence.track = 0
        if _DEFAULTS in found:
            self._defaults(sequence, _bytes(found[_DEFAULTS]))
        if _SNAPSHOT in found:
            self._snapshot(sequence, _bytes(found[_SNAPSHOT]))
        if _INTERNED in found:
            _learn(sequence, _bytes(found[_INTERNED]))
        if _TRACK in found:
            self._track(_bytes(found[_TRACK]))
        if _SLICE in found or _STAGE in found:
            clock = _int(found.get(_CLOCK)) or sequence.clock
            now = self._time(sequence, clock, _int(found.get(_TIMESTAMP)))
            if _SLICE in found:
                self._slice(sequence, now, _bytes(found[_SLICE]))
            else:
                self._stage(sequence, now, _bytes(found[_STAGE]))

    def _unpacked(self, data: bytes) -> None:
        if self._nested:
            raise ValueError("compressed packets inside of compressed packets")
        packer = zlib.decompressobj()
        try:
            text = packer.decompress(data, TRACE_VALUE.most)
        except zlib.error as error:
            raise ValueError(say("its packing is damaged: {error}", error=error)) from error
        if packer.unconsumed_tail:
            raise ValueError("compressed packets unpack to too much")
        self._nested = True
        for number, value in fields(text):
            if number == _PACKET and isinstance(value, bytes):
                self.packet(value)
        self._nested = False

    def _defaults(self, sequence: _Sequence, message: bytes) -> None:
        for number, value in fields(message):
            if number == _CLOCK:
                sequence.clock = _int(value)
            elif number == 11:  # of slices
                sequence.track = next((_int(track) for at, track in fields(_bytes(value)) if at == 11), 0)

    def _snapshot(self, sequence: _Sequence, message: bytes) -> None:
        clocks = [dict(fields(_bytes(value))) for number, value in fields(message) if number == 1]
        boot = next((_int(one.get(2)) for one in clocks if _int(one.get(1)) == _BOOT_TIME), None)
        for one in clocks:
            number, scale = _int(one.get(1)), _int(one.get(4)) or 1
            now = _int(one.get(2)) * scale
            incremental = bool(one.get(3))
            clock = _Clock(scale, boot - now if boot is not None else 0, incremental, now)
            (sequence.clocks if number in _OF_SEQUENCE else self._clocks).setdefault(number, clock)
            if incremental:
                sequence.clocks[number] = clock

    def _time(self, sequence: _Sequence, number: int, value: int) -> int:
        clock = sequence.clocks.get(number) or self._clocks.get(number)
        now = value if clock is None or number == _BOOT_TIME else clock.reads(value)
        if self._zero is None:
            self._zero = now  # nanoseconds since 1970 have no place in a float
        if abs(now - self._zero) > _FAR:
            raise ValueError(say("the time {value} is far from the first one", value=value))
        return now - self._zero

    def _track(self, message: bytes) -> None:
        found = dict(fields(message))
        name = _int(found.get(1))
        if 5 in found:
            self._parents[name] = _int(found[5])
        thread, process = found.get(4), found.get(3)
        for value, what in ((process, 0), (thread, 1)):
            if isinstance(value, bytes):
                ids = dict(fields(value))
                self._threads[name] = (_int(ids.get(1)), signed(_int(ids.get(2))) if what else 0)

    def _slice(self, sequence: _Sequence, now: int, message: bytes) -> None:
        kind, name, category, number = 0, "", "", -1
        track = sequence.track
        for at, value in fields(message):
            if at == 9:
                kind = _int(value)
            elif at == 11:
                track = _int(value)
            elif at == 10:
                name = sequence.names.get(_int(value), "")
            elif at == 23:
                name = _text(value)
            elif at == 3:
                category = category or sequence.categories.get(_int(value), "")
            elif at == 22:
                category = category or _text(value)
            elif at == 4 and isinstance(value, bytes):
                number = _correlation(sequence, value, number)
        if kind == _BEGIN:
            self._unnamed += not category
            one = self._tracks.setdefault(track, _Track())
            one.begins.append(now)
            one.what.append(self._whats.setdefault((name, category), len(self._whats)))
            one.numbers.append(number)
        elif kind == _END:
            self._tracks.setdefault(track, _Track()).ends.append(now)

    def _stage(self, sequence: _Sequence, now: int, message: bytes) -> None:
        found: dict[int, Value] = {}
        number = -1
        for at, value in fields(message):
            if at == 6 and isinstance(value, bytes) and b"correlation" in value:
                extra = dict(fields(value))
                if extra.get(1) == b"correlation":
                    number = _number(_text(extra.get(2, b"")), number)
            else:
                found[at] = value
        stage = sequence.stages.get(_int(found.get(14)), "")
        category = _KINDS.get(stage)
        if category is None:
            return
        name = _text(found[17]) if 17 in found else sequence.names.get(_int(found.get(20)), stage)
        self._copies += category == "gpu_memcpy" and name == stage
        device, queue = signed(_int(found.get(11))), _int(found.get(13))
        self._give(now, now + _int(found.get(2)), name, category, f"GPU {device}", queue, number)

    def _give(
        self, begin: int, end: int, name: str, category: str, process: object, thread: int, number: int
    ) -> None:
        event = {
            "ph": "X", "ts": begin / 1e3, "dur": (end - begin) / 1e3, "name": name, "cat": category,
            "pid": process, "tid": thread, "args": {"correlation": number} if number >= 0 else {},
        }  # fmt: skip
        self._take(event)

    def _home(self, track: int) -> tuple[int, int]:
        """Process and thread of a track: its own, or those of what it belongs to."""
        seen: set[int] = set()
        at = track
        while at not in self._threads and at in self._parents and at not in seen:
            seen.add(at)
            at = self._parents[at]
        process, thread = self._threads.get(at, (0, 0))
        return process, thread if at == track else track

    def finish(self) -> list[str]:
        """The slices, which have their ends only now; and what the trace cannot show."""
        whats = list(self._whats)
        cut = 0
        while self._tracks:
            track, one = self._tracks.popitem()
            process, thread = self._home(track)
            closed = 0
            for begin, end, what, number in one.slices():
                name, category = whats[what]
                closed += 1
                if category:
                    self._give(begin, end, name, category, process, thread, number)
            cut += len(one.begins) - closed
        said = []
        if self._unnamed:
            said.append(
                say(
                    "it has {slices} without a category, which gpudoctor ignores",
                    slices=count(self._unnamed, "slice"),
                )
            )
        if cut:
            said.append(
                say("it has {slices} without an end, which gpudoctor ignores", slices=count(cut, "slice"))
            )
        if self._copies:
            said.append(
                say(
                    "its copies have no direction, so they count as the device's own work; "
                    "prof.export_chrome_trace('trace.json') writes directions"
                )
            )
        return said


def _learn(sequence: _Sequence, message: bytes) -> None:
    """Names that later packets of a sequence refer to by number."""
    for number, value in fields(message):
        if number in (_NAMES, _CATEGORIES, _KEYS, _STAGES):
            entry = dict(fields(_bytes(value)))
            at, name = _int(entry.get(1)), _bytes(entry.get(2, b""))
            if number == _KEYS:
                sequence.keys[at] = name
            else:
                home = {_NAMES: sequence.names, _CATEGORIES: sequence.categories, _STAGES: sequence.stages}
                home[number][at] = _text(name)


def _correlation(sequence: _Sequence, annotation: bytes, known: int) -> int:
    """The correlation that an annotation gives a slice; `known` where it gives another thing."""
    if not sequence.keys and b"correlation" not in annotation:
        return known
    found = dict(fields(annotation))
    if (found.get(10) or sequence.keys.get(_int(found.get(1)))) != b"correlation":
        return known
    for at in (4, 3):
        if at in found:
            return signed(_int(found[at]))
    return _number(_text(found.get(6, b"")), known)


def _number(text: str, otherwise: int) -> int:
    return int(text) if text.isdecimal() and len(text) < 19 else otherwise


def _int(value: Value | None) -> int:
    if isinstance(value, bytes):
        raise ValueError("bytes where a number must be")
    return value or 0


def _bytes(value: Value) -> bytes:
    if not isinstance(value, bytes):
        raise ValueError("a number where a message must be")
    return value


def _text(value: Value) -> str:
    return _bytes(value).decode("utf-8", "replace")
