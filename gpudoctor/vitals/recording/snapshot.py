"""Memory snapshots of PyTorch (`torch.cuda.memory._dump_snapshot`): what holds the device's memory, by line.

The format is that of the docstring of `torch.cuda.memory._snapshot`: segments of blocks with the stacks that
allocated them, and for each device the history of its allocations.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from gpudoctor.errors import UsageError
from gpudoctor.model.doors import is_packed, open_unpacked, unpacked_most
from gpudoctor.model.limits import SNAPSHOT, SNAPSHOT_PARTS
from gpudoctor.model.signs.memory_snapshot import DeviceMemory, HeldBy, MemorySnapshot, Refused
from gpudoctor.vitals.plain_pickle import NotPlain, load_plain
from gpudoctor.vitals.process.classify import is_library

_LARGEST = 1 << 62
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
        raise UsageError(f"{name}: cannot be read: {error.strerror or error}") from error
    if len(data) > most:
        raise UsageError(f"{name}: cannot be read: it is {SNAPSHOT.words}")
    try:
        value = load_plain(data)
    except NotPlain as error:
        raise UsageError(f"{name}: cannot be read as a memory snapshot: {error}") from error
    if not isinstance(value, dict) or not isinstance(value.get("segments"), list):
        raise UsageError(f"{name}: it is a pickle, and no memory snapshot of PyTorch (`segments` is missing)")
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
        return MemorySnapshot(
            path=self._name,
            devices=tuple(
                self._device(number, segments[number], histories[number] if number < len(histories) else [])
                for number in numbers
            ),
            events=sum(map(len, histories)),
        )

    def _dicts(self, items: object) -> Iterator[Mapping[str, Any]]:
        """The dicts of a list, counted: a list may stand in many places of a small file."""
        for item in items if isinstance(items, list) else ():
            self._parts += 1
            if self._parts > SNAPSHOT_PARTS.most:
                raise UsageError(f"{self._name}: cannot be read: it has {SNAPSHOT_PARTS.words}")
            if isinstance(item, dict):
                yield item

    def _device(
        self, number: int, segments: list[Mapping[str, Any]], history: list[Mapping[str, Any]]
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
            segments=len(segments),
            held=tuple(_held(line, *sums) for line, sums in ranked),
            refused=tuple(self._refused(history, asked, reserved)),
        )

    def _refused(self, history: list[Mapping[str, Any]], allocated: int, reserved: int) -> Iterator[Refused]:
        """Allocations that failed, oldest first: from the sums of now back through the history."""
        found: list[Refused] = []
        segments = any(entry.get("action") in _SEGMENTS for entry in history)
        for entry in reversed(history):
            action = entry.get("action")
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
            elif isinstance(action, str):
                allocated -= _SIGNS.get(action, 0) * size
                reserved -= _SEGMENTS.get(action, 0) * size
        return reversed(found)

    def _line(self, frames: object) -> Line:
        """The innermost line that is neither torch's nor a library's."""
        known = self._lines.get(id(frames))
        if known is None:
            known = next(filter(None, map(_user_line, self._dicts(frames))), _NOBODY)
            self._lines[id(frames)] = known
        return known


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
