"""The events of one trace: what each is by its category and name, kept as intervals by thread and device.

Kineto's categories are lower-case words since 2021 (`cpu_op`, `cuda_runtime`, `kernel`); before, they were
`Operator`, `Runtime`, `Kernel`. Format: github.com/pytorch/kineto, `libkineto/src/output_json.cpp`.
"""

import re
import sys
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from gpudoctor.lang import say
from gpudoctor.model.records import dataclass, field, frozen
from gpudoctor.vitals.recording.chrome import Event

FAR = 1e18
"""Microseconds that no clock shows."""
OPERATOR, MARK, RUNTIME, PYTHON = "operator", "mark", "runtime", "python"
KERNEL, COPY, FILL = "kernel", "copy", "fill"
DEVICE = (KERNEL, COPY, FILL)
"""What a device does."""
_KINDS = {
    "cpu_op": OPERATOR, "operator": OPERATOR, "cpu_instant_event": OPERATOR, "user_annotation": MARK,
    "python_function": PYTHON, "kernel": KERNEL, "concurrent_kernel": KERNEL, "gpu_memcpy": COPY,
    "memcpy": COPY, "gpu_memset": FILL, "memset": FILL,
}  # fmt: skip
_RUNTIME = re.compile(r"(?:\w+_)?(?:runtime|driver)", re.IGNORECASE)

STEP = re.compile(r"ProfilerStep#(\d{1,15})")
LOADER = "enumerate(DataLoader)"
OPTIMIZER = "Optimizer.step#"
_OPTIMIZERS = (OPTIMIZER, "Optimizer.zero_grad#")
_BACKWARD = re.compile(r"autograd::engine|torch::autograd::|[A-Za-z0-9_]*[a-z0-9_]Backward[0-9]*$")
READ = "aten::_local_scalar_dense"
_COLLECTIVE_CALL = re.compile(r"(nccl|gloo|mpi|ucc|c10d|record_param_comms)\b", re.IGNORECASE)
_COLLECTIVE_KERNEL = re.compile(
    r"nccl|rccl|mscclpp|mscclkernel|nvshmem|cross_device_reduce|multimem_all_", re.IGNORECASE
)
WAIT = re.compile(r"(?:cuda|hip|cu|xpu|musa)(?:Stream|Device|Event|Ctx)Synchronize")
COPY_CALL = re.compile(r"(?:cuda|hip|cu|xpu|musa)Memcpy")
LAUNCH_CALL = re.compile(r"(?:cuda|hip|cu|xpu|musa)(?:Ext)?(?:Module)?(?:Launch|GraphLaunch)")
_TO_DEVICE = re.compile(r"HtoD|HostToDevice")
_TO_HOST = re.compile(r"DtoH|DeviceToHost")

_FUNCTION = re.compile(r"(?P<path>[^<(][^(]*\.py)\((?P<line>[0-9]{1,9})\): (?P<name>.+)")
_LIBRARIES = (
    "torch/", "site-packages/", "dist-packages/", "numpy/", "accelerate/", "transformers/", "lightning/",
    "pytorch_lightning/", "deepspeed/", "importlib/", "multiprocessing/", "concurrent/",
)  # fmt: skip


def timed(event: Event) -> bool:
    """Whether an event has a beginning and a length that can be."""
    return event.get("ph") == "X" and _number(event.get("ts"), -FAR) and _number(event.get("dur"), 0.0)


def _number(value: object, least: float) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and least <= value < FAR


def kind_of(event: Event) -> str | None:
    """What made the event; None for what counts as no work (`gpu_user_annotation`, `Trace`, `overhead`)."""
    category = event.get("cat")
    if not isinstance(category, str):
        return None
    return _KINDS.get(category.lower()) or (RUNTIME if _RUNTIME.fullmatch(category) else None)


def phase_of(kind: str, name: str) -> str | None:
    """The phase of the thread on which an event of the host stands; None where it says none."""
    if kind not in (OPERATOR, MARK):
        return None
    if name.startswith(LOADER):
        return "data_wait"
    if name.startswith(_OPTIMIZERS):
        return "optimizer"
    if _COLLECTIVE_CALL.match(name):
        return "collective"
    if kind == OPERATOR and not STEP.match(name) and not is_backward(name):
        return "forward"
    return None


def is_backward(operator: str) -> bool:
    """Whether an operator is one of autograd's: before 2022 its engine had no events of its own."""
    return _BACKWARD.match(operator) is not None


def is_collective(kernel: str) -> bool:
    """Whether a kernel belongs to a collective, by its name."""
    return _COLLECTIVE_KERNEL.search(kernel) is not None


def direction(name: str) -> str | None:
    """Where a copy of the device goes: `device`, `host`, None for one that stays."""
    if _TO_DEVICE.search(name):
        return "device"
    return "host" if _TO_HOST.search(name) else None


def correlation(event: Event) -> int | None:
    """The number that a call of the runtime and the work that it launched share; None where there is none."""
    given = event.get("args")
    number = given.get("correlation") if isinstance(given, Mapping) else None
    return number if isinstance(number, int) else None


def user_function(name: str) -> tuple[str, int, str] | None:
    """Path, first line and name of a function of the user's own code."""
    match = _FUNCTION.fullmatch(name) if ".py(" in name else None
    if match is None or any(folder in match["path"] for folder in _LIBRARIES):
        return None
    root = match["path"].partition("/")[0].removesuffix(".py")
    return None if root in sys.stdlib_module_names else (match["path"], int(match["line"]), match["name"])


def facts(document: Mapping[str, Any]) -> dict[str, Any]:
    """What the head of a trace says of its device."""
    devices = document.get("deviceProperties")
    first = as_object(devices[0]) if isinstance(devices, list) and devices else {}
    return {
        "device": first.get("name"),
        "device_bytes": first.get("totalGlobalMem"),
        "backend": as_object(document.get("distributedInfo")).get("backend"),
    }


def as_object(value: object) -> Mapping[str, Any]:
    """The value where it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


# Sets of time intervals: what a trace's events cover, without counting anything twice.

Intervals = list[tuple[float, float]]
"""Sorted, not touching each other."""
_MERGE = 1 << 16
"""Intervals that are held before they are merged."""


def union(spans: Iterable[tuple[float, float]], gap: float = 0.0) -> Intervals:
    """What the spans cover together; gaps of at most `gap` are closed."""
    merged: Intervals = []
    for begin, end in sorted(spans):
        if merged and begin <= merged[-1][1] + gap:
            if end > merged[-1][1]:
                merged[-1] = (merged[-1][0], end)
        elif end > begin:
            merged.append((begin, end))
    return merged


def without(spans: Intervals, others: Intervals) -> Intervals:
    """The parts of `spans` that `others` do not cover."""
    left: Intervals = []
    place = 0
    for begin, end in spans:
        while place < len(others) and others[place][1] <= begin:
            place += 1
        at, index = begin, place
        while index < len(others) and others[index][0] < end:
            if others[index][0] > at:
                left.append((at, others[index][0]))
            at = max(at, others[index][1])
            index += 1
        if at < end:
            left.append((at, end))
    return left


def covered(spans: Intervals, begin: float, end: float) -> float:
    """How much of a window is covered."""
    first = bisect_right(spans, begin, key=lambda span: span[1])
    last = bisect_left(spans, end, key=lambda span: span[0])
    return sum(min(stop, end) - max(start, begin) for start, stop in spans[first:last])


def inside(points: Sequence[float], begin: float, end: float) -> int:
    """How many of sorted points lie in a window."""
    return bisect_left(points, end) - bisect_left(points, begin)


class Spans:
    """Intervals as they come. They are merged now and then, so that nested ones take no memory."""

    __slots__ = ("_begins", "_ends", "_merge_at")

    def __init__(self) -> None:
        self._begins = array("d")
        self._ends = array("d")
        self._merge_at = _MERGE

    def __len__(self) -> int:
        return len(self._begins)

    def add(self, begin: float, end: float) -> None:
        """One more interval."""
        self._begins.append(begin)
        self._ends.append(end)
        if len(self._begins) >= self._merge_at:
            merged = self.union()
            self._begins = array("d", (span[0] for span in merged))
            self._ends = array("d", (span[1] for span in merged))
            self._merge_at = max(_MERGE, 2 * len(merged))

    def union(self, gap: float = 0.0) -> Intervals:
        """What they cover together; gaps of at most `gap` are closed."""
        return union(zip(self._begins, self._ends, strict=True), gap)


BLOCKED = 50.0
"""Microseconds from which on a call that copies has waited: one that only launches takes 3 to 20."""
_SOON = 100.0
"""Microseconds between a copy to the host and the wait for it that belong to one read."""
_GAP = 200.0
"""Microseconds of Python between two operators, or two functions of autograd, that belong to one pass."""
SETUP = "setup"
_OWNING = ("data_wait", "collective", "sync", "transfer", SETUP, "optimizer", "backward", "forward")
"""Phases, the owner of what lies inside it first: as in a recording of our own."""
_LONG = 1000.0
"""Microseconds from which on a call of the runtime is no launch: it loads kernels, or reserves memory."""
Key = tuple[str, int, str]
"""Path, line and name of a function of the user's."""


@frozen
class DeviceWait:
    """A call in which the host waited for the device."""

    begin: float
    end: float
    what: str
    phase: str


@dataclass(slots=True)
class HostThread:
    """What one thread of the host did."""

    phases: dict[str, Spans] = field(default_factory=dict)
    backward: Spans = field(default_factory=Spans)
    waits: list[tuple[float, float, str]] = field(default_factory=list)
    long: list[tuple[float, float, str]] = field(default_factory=list)
    """Other calls of the runtime that took long."""
    copies: list[tuple[float, float, str, int | None]] = field(default_factory=list)
    """Calls that copy, with the number of what they launched."""
    optimizers: "array[float]" = field(default_factory=lambda: array("d"))
    reads: Spans = field(default_factory=Spans)
    batches: "array[float]" = field(default_factory=lambda: array("d"))
    first: float = FAR
    frames: tuple["array[float]", "array[float]", "array[int]"] = field(
        default_factory=lambda: (array("d"), array("d"), array("I"))
    )
    """Begins and ends of the user's functions, and their place among `Trace.functions`."""


@dataclass(slots=True)
class DeviceTimeline:
    """What one device did."""

    compute: Spans = field(default_factory=Spans)
    collective: Spans = field(default_factory=Spans)
    to_device: Spans = field(default_factory=Spans)
    every: Spans = field(default_factory=Spans)


class Trace:
    """A trace as it is read; `take` is given each of its events once, in any order."""

    def __init__(self) -> None:
        self.threads: dict[str, HostThread] = {}
        self.functions: dict[Key, int] = {}
        self.marks: dict[int, tuple[float, float, str]] = {}
        """Begin, end and thread of the steps that the profiler marked."""
        self.launches = 0
        self.python = 0
        """Calls of Python that the profiler recorded."""
        self.begin, self.end = FAR, -FAR
        self._cards: dict[str, DeviceTimeline] = {}
        self._directions: dict[int, str | None] = {}

    def take(self, event: Event) -> None:
        """One more event."""
        kind = kind_of(event)
        if kind is None or not timed(event):
            return
        begin, name = float(event["ts"]), str(event.get("name"))
        end = begin + float(event["dur"])
        if kind == PYTHON:
            self._frame(event, name, begin, end)
            return
        mark = STEP.match(name)
        if mark:
            if kind in (MARK, OPERATOR):
                self._mark(int(mark[1]), begin, end, _thread(event))
            return
        self.begin, self.end = min(self.begin, begin), max(self.end, end)
        if kind in DEVICE:
            self._work(event, kind, name, begin, end)
        else:
            self._call(event, kind, name, begin, end)

    def _mark(self, number: int, begin: float, end: float, thread: str) -> None:
        known = self.marks.get(number)
        if known is None or end - begin > known[1] - known[0]:
            self.marks[number] = (begin, end, thread)

    def _frame(self, event: Event, name: str, begin: float, end: float) -> None:
        self.python += 1
        key = user_function(name)
        if key is not None:
            begins, ends, keys = self._thread(event).frames
            begins.append(begin)
            ends.append(end)
            keys.append(self.functions.setdefault(key, len(self.functions)))

    def _work(self, event: Event, kind: str, name: str, begin: float, end: float) -> None:
        card = self._cards.setdefault(str(event.get("pid")), DeviceTimeline())
        card.every.add(begin, end)
        if kind == KERNEL:
            (card.collective if is_collective(name) else card.compute).add(begin, end)
            return
        where = direction(name) if kind == COPY else None
        if where == "device":
            card.to_device.add(begin, end)
        elif where is None:
            card.compute.add(begin, end)
        number = correlation(event) if kind == COPY else None
        if number is not None:
            self._directions[number] = where

    def _call(self, event: Event, kind: str, name: str, begin: float, end: float) -> None:
        thread = self._thread(event)
        if kind == RUNTIME:
            if WAIT.match(name):
                thread.waits.append((begin, end, name))
            elif COPY_CALL.match(name):
                thread.copies.append((begin, end, name, correlation(event)))
            else:
                self.launches += LAUNCH_CALL.match(name) is not None
                if end - begin >= _LONG:
                    thread.long.append((begin, end, name))
            return
        if kind == OPERATOR:
            thread.first = min(thread.first, begin)
        if kind == OPERATOR and is_backward(name):
            thread.backward.add(begin, end)
            return
        phase = phase_of(kind, name)
        if phase is None:
            return
        thread.phases.setdefault(phase, Spans()).add(begin, end)
        if name.startswith(LOADER):
            thread.batches.append(begin)
        elif name.startswith(OPTIMIZER):
            thread.optimizers.append(end)
        elif name == READ:
            thread.reads.add(begin, end)

    def _thread(self, event: Event) -> HostThread:
        return self.threads.setdefault(_thread(event), HostThread())

    def card(self) -> DeviceTimeline | None:
        """The device that worked longest; None where the trace shows none."""
        return max(self._cards.values(), key=lambda card: _length(card.every.union()), default=None)

    def home(self) -> str | None:
        """The thread of the training: where steps are marked, else where optimizer or most operators are."""
        if self.marks:
            return self.marks[min(self.marks)][2]
        for measure in (_optimized, _operated):
            best = max(self.threads, key=lambda name: measure(self.threads[name]), default=None)
            if best is not None and measure(self.threads[best]) > 0:
                return best
        return None

    def waits(self, thread: HostThread) -> Iterator[DeviceWait]:
        """Calls of a thread that waited for the device, with what they waited for."""
        for begin, end, what in thread.waits:
            yield DeviceWait(begin=begin, end=end, what=what, phase="sync")
        for begin, end, what, number in thread.copies:
            if end - begin < BLOCKED:
                continue
            where = self._directions.get(number, "host") if number is not None else "host"
            if where is not None:  # a copy inside of the device waits for room in the queue: the device is busy
                phase = "transfer" if where == "device" else "sync"
                yield DeviceWait(
                    begin=begin, end=end, what=say("{what} to the {where}", what=what, where=where), phase=phase
                )

    def setups(self, thread: HostThread, device: Intervals) -> Iterator[DeviceWait]:
        """Long calls of a thread while the device has nothing to do; else they wait for room in its queue."""
        if not device:
            return
        for begin, end, what in thread.long:
            if covered(device, begin, end) < (end - begin) / 2:
                yield DeviceWait(begin=begin, end=end, what=what, phase=SETUP)

    def reads(self, thread: HostThread) -> list[float]:
        """When a thread read values of the device; without a device, when it read values of tensors."""
        found = thread.reads.union()
        if not self._cards:
            return [begin for begin, _ in found]
        waits = sorted(begin for begin, _, _ in thread.waits)
        copies = sorted(
            begin
            for begin, end, _, number in thread.copies
            if number is not None
            and self._directions.get(number) == "host"
            and (end - begin >= BLOCKED or inside(waits, end, end + _SOON))
        )
        named = [span for span in found if inside(waits, *span) or inside(copies, *span)]
        return sorted([begin for begin, _ in named] + [at for at in copies if not _within(named, at)])

    def backward_threads(self) -> list[HostThread]:
        """With a device, autograd runs in a thread of its own, while the training's waits inside backward()."""
        return [thread for thread in self.threads.values() if len(thread.backward)]

    def phases(self, home: HostThread, device: Intervals) -> dict[str, Intervals]:
        """Spans of the training thread by phase, none counted twice; what comes first owns its inside."""
        found = {name: spans.union() for name, spans in home.phases.items()}
        passes = self.backward_threads()
        found["backward"] = union(span for thread in passes for span in thread.backward.union())
        # Steps of tiny models are closer than the parts of one: a pass ends where another phase begins.
        walls = sorted(begin for name in ("data_wait", "optimizer") for begin, _ in found.get(name, ()))
        for name in ("forward", "backward"):
            found[name] = _closed(found.get(name, []), walls)
        waits = [
            wait for thread in _once(home, *passes) for wait in (*self.waits(thread), *self.setups(thread, device))
        ]
        for phase in ("sync", "transfer", SETUP):
            found[phase] = union((wait.begin, wait.end) for wait in waits if wait.phase == phase)
        taken: Intervals = []
        exclusive: dict[str, Intervals] = {}
        for name in _OWNING:
            spans = found.get(name, [])
            exclusive[name] = without(spans, taken)
            taken = union([*taken, *spans])
        return exclusive


def _closed(spans: Intervals, walls: Sequence[float]) -> Intervals:
    """The spans with the gaps closed that are short and hold no wall (sorted)."""
    merged: Intervals = []
    for begin, end in spans:
        if merged and begin <= merged[-1][1] + _GAP and not inside(walls, merged[-1][1], begin):
            merged[-1] = (merged[-1][0], end)
        else:
            merged.append((begin, end))
    return merged


def _within(spans: Intervals, moment: float) -> bool:
    return covered(spans, moment, moment + 1e-3) > 0


def _once(*threads: HostThread) -> list[HostThread]:
    return list({id(thread): thread for thread in threads}.values())


def _thread(event: Event) -> str:
    return f"{event.get('pid')}/{event.get('tid')}"


def _length(spans: Intervals) -> float:
    return covered(spans, -FAR, FAR)


def _optimized(thread: HostThread) -> float:
    return len(thread.optimizers)


def _operated(thread: HostThread) -> float:
    return _length(union(span for spans in thread.phases.values() for span in spans.union()))
