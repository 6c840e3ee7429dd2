"""Memory snapshots of PyTorch (`torch.cuda.memory._dump_snapshot`): what holds the device's memory, by line.

The format is that of the docstring of `torch.cuda.memory._snapshot`: segments of blocks with the stacks that
allocated them, and for each device the history of its allocations.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from gpudoctor.errors import UsageError
from gpudoctor.model.external_files import is_packed, open_unpacked, unpacked_most
from gpudoctor.model.read_limits import SNAPSHOT, SNAPSHOT_PARTS
from gpudoctor.model.signs.memory_snapshot import DeviceMemory, HeldBy, Kept, MemorySnapshot, Refused
from gpudoctor.vitals.plain_pickle import NotPlain, load_plain
from gpudoctor.vitals.process.classify_stack import is_library

_LARGEST = 1 << 62
_FIRST = 3
"""Steps in which states and caches are made."""
_FEWEST = 8
"""Steps of which something must be held, below which a habit is not told from chance."""
_NOBODY = ("", 0, "")
_IN_USE = ("active_allocated", "active_awaiting_free")
_SIGNS = {"alloc": 1, "free_completed": -1}
_SEGMENTS = {"segment_alloc": 1, "segment_map": 1, "segment_free": -1, "segment_unmap": -1}
"""Actions of the history, and whether they add or take away."""

Line = tuple[str, int, str]


def is_pickle(path: Path) -> bool:
    """Whether a file begins as a pickle of protocol 2 to 5 does."""
    try:
        with open_unpacked(path) as stream:
            head = stream.read(2)
    except OSError:
        return False
    return len(head) == 2 and head[0] == 0x80 and 2 <= head[1] <= 5


def read_snapshot(name: str) -> MemorySnapshot:
    """The snapshot of a file. Raises `UsageError` for what is none, or names code."""
    try:
        most = unpacked_most(Path(name).stat().st_size, SNAPSHOT) if is_packed(name) else SNAPSHOT.most
        with open_unpacked(name) as stream:
            data = stream.read(most + 1)
    except OSError as error:
        raise UsageError("{name}: cannot be read: {reason}", name=name, reason=error.strerror or error) from error
    if len(data) > most:
        raise UsageError("{name}: cannot be read: it is {words}", name=name, words=SNAPSHOT.words)
    try:
        value = load_plain(data)
    except NotPlain as error:
        raise UsageError("{name}: cannot be read as a memory snapshot: {error}", name=name, error=error) from error
    if not isinstance(value, dict) or not isinstance(value.get("segments"), list):
        raise UsageError(
            "{name}: it is a pickle but not a memory snapshot of PyTorch (`segments` is missing)", name=name
        )
    return _Snapshot(name).read(value)


class _Snapshot:
    """One file while it is summed up."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._parts = 0
        self._lines: dict[int, Line] = {}
        """By the identity of a list of frames: equal stacks are one list in the file."""

    def read(self, value: Mapping[str, Any]) -> MemorySnapshot:
        """The sums by device."""
        segments: dict[int, list[Mapping[str, Any]]] = defaultdict(list)
        for segment in self._dicts(value["segments"]):
            segments[_size(segment, "device")].append(segment)
        traces = value.get("device_traces")
        histories = [list(self._dicts(trace)) for trace in traces] if isinstance(traces, list) else []
        numbers = sorted({*segments, *(number for number, trace in enumerate(histories) if trace)})
        notes = list(self._dicts(value.get("external_annotations")))
        return MemorySnapshot(
            path=self._name,
            devices=tuple(
                self._device(
                    number,
                    segments[number],
                    histories[number] if number < len(histories) else [],
                    _steps(notes, number),
                )
                for number in numbers
            ),
            events=sum(map(len, histories)),
        )

    def _dicts(self, items: object) -> Iterator[Mapping[str, Any]]:
        """The dicts of a list, counted: a list may stand in many places of a small file."""
        for item in items if isinstance(items, list) else ():
            self._parts += 1
            if self._parts > SNAPSHOT_PARTS.most:
                raise UsageError("{name}: cannot be read: it has {words}", name=self._name, words=SNAPSHOT_PARTS.words)
            if isinstance(item, dict):
                yield item

    def _device(
        self, number: int, segments: list[Mapping[str, Any]], history: list[Mapping[str, Any]], steps: list[int]
    ) -> DeviceMemory:
        held: dict[Line, list[int]] = defaultdict(lambda: [0, 0])
        loose = 0
        for segment in segments:
            blocks = list(self._dicts(segment.get("blocks")))
            used = [block for block in blocks if block.get("state") in _IN_USE]
            if used:
                loose += sum(_size(block, "size") for block in blocks if block.get("state") == "inactive")
            for block in used:
                sums = held[self._line(block.get("frames"))]
                sums[0] += _size(block, "size")
                sums[1] += 1
        allocated = sum(_size(segment, "allocated_size") for segment in segments)
        asked = sum(_size(segment, "requested_size") for segment in segments)
        reserved = sum(_size(segment, "total_size") for segment in segments)
        ranked = sorted(held.items(), key=lambda item: -item[1][0])
        return DeviceMemory(
            device=number,
            allocated=allocated,
            reserved=reserved,
            loose=loose,
            held=tuple(_held(line, *sums) for line, sums in ranked),
            peak=_peak(history, asked) if history else None,
            kept=tuple(self._kept(history, steps)),
            refused=tuple(self._refused(history, asked, reserved)),
        )

    def _refused(self, history: list[Mapping[str, Any]], allocated: int, reserved: int) -> Iterator[Refused]:
        """Allocations that failed, oldest first: from the sums of now back through the history."""
        found: list[Refused] = []
        segments = any(str(entry.get("action")) in _SEGMENTS for entry in history)
        for entry in reversed(history):
            action = str(entry.get("action"))
            size = _size(entry, "size")
            if action == "oom":
                free = entry.get("device_free")
                found.append(
                    Refused(
                        requested=size,
                        free=free if isinstance(free, int) and 0 <= free < _LARGEST else None,
                        reserved=reserved if segments else None,
                        allocated=allocated,
                        at=_held(self._line(entry.get("frames")), size, 1),
                    )
                )
            else:
                allocated -= _SIGNS.get(action, 0) * size
                reserved -= _SEGMENTS.get(action, 0) * size
        return reversed(found)

    def _kept(self, history: list[Mapping[str, Any]], steps: list[int]) -> Iterator[Kept]:
        """What the lines allocated step by step and is held at the end of the history."""
        looked = range(_FIRST, len(steps) - 1)
        if len(looked) < _FEWEST:
            return
        alive: dict[int, Mapping[str, Any]] = {}
        for entry in history:
            if entry.get("action") == "alloc":
                alive[_size(entry, "addr")] = entry
            elif entry.get("action") == "free_completed":
                alive.pop(_size(entry, "addr"), None)
        found: dict[Line, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
        for entry in alive.values():
            step = bisect_right(steps, _size(entry, "time_us")) - 1
            if step in looked:
                found[self._line(entry.get("frames"))][step].append(_size(entry, "size"))
        kept = [
            Kept(
                by=_held(line, sum(map(sum, sizes.values())), sum(map(len, sizes.values()))),
                steps=len(sizes),
                of=len(looked),
            )
            for line, sizes in found.items()
        ]
        yield from sorted(kept, key=lambda item: -item.by.bytes)

    def _line(self, frames: object) -> Line:
        """The innermost line that is neither torch's nor a library's."""
        known = self._lines.get(id(frames))
        if known is None:
            known = next(filter(None, map(_user_line, self._dicts(frames))), _NOBODY)
            self._lines[id(frames)] = known
        return known


def _steps(notes: list[Mapping[str, Any]], device: int) -> list[int]:
    """When the steps of the optimizer that steps most often began, in microseconds."""
    begun: dict[str, list[int]] = defaultdict(list)
    for note in notes:
        name = note.get("name")
        here = note.get("stage") == "START" and note.get("device") == device
        if here and isinstance(name, str) and name.startswith("Optimizer.step#"):
            begun[name].append(_size(note, "time_us"))
    most: list[int] = max(begun.values(), key=lambda times: len(times), default=[])
    return sorted(most)


def _peak(history: list[Mapping[str, Any]], asked: int) -> int:
    """The most bytes that were asked for at a time, from those of now back."""
    most = asked
    for entry in reversed(history):
        asked -= _SIGNS.get(str(entry.get("action")), 0) * _size(entry, "size")
        most = max(most, asked)
    return most


def _user_line(frame: Mapping[str, Any]) -> Line | None:
    path, line, name = frame.get("filename"), frame.get("line"), frame.get("name")
    if not (isinstance(path, str) and isinstance(line, int) and isinstance(name, str)):
        return None
    if not path.endswith((".py", ".ipynb")) and not path.startswith("<ipython"):
        return None  # C++ frames, `??`, `<frozen runpy>`
    return None if is_library(path) else (path, line, name)


def _held(line: Line, size: int, blocks: int) -> HeldBy:
    path, number, name = line
    return HeldBy(path=path, line=number, function=name, bytes=size, blocks=blocks)


def _size(item: Mapping[str, Any], name: str) -> int:
    """A number of the format; 0 where it is absent or none that a device can have."""
    value = item.get(name)
    return value if isinstance(value, int) and 0 <= value < _LARGEST else 0
