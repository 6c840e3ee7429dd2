"""Traces of the PyTorch profiler (Kineto, Chrome trace JSON) as recordings.

A step is a `ProfilerStep#N` of `prof.step()`; without a schedule it is what ends in an optimizer step.
Phases are what the profiler's annotations and operators of the training thread say: loader, optimizer,
autograd, collectives, waits for the device; other operators are the forward pass. Format:
github.com/pytorch/kineto, `libkineto/src/output_json.cpp`.
"""

import json
import re
import sys
from array import array
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from gpudoctor.errors import UsageError
from gpudoctor.model.doors import open_unpacked, read_unpacked
from gpudoctor.model.limits import TRACE, TRACE_CONTAINERS
from gpudoctor.model.signs.recording import Process, Record, Recording, Table
from gpudoctor.model.unavailable import Unavailable
from gpudoctor.vitals.recording.fields import judged, left_out
from gpudoctor.vitals.recording.intervals import Intervals, covered, inside, union, without
from gpudoctor.vitals.recording.sound import sound

_FAR = 1e18
"""Microseconds that no clock shows."""
_STEP = re.compile(r"ProfilerStep#(\d+)")
_FUNCTION = re.compile(r"(?P<path>[^<(][^(]*\.py)\((?P<line>[0-9]{1,9})\): (?P<name>.+)")
_BACKWARD_GAP = 200.0
"""Microseconds between two backward functions that belong to one backward pass."""
_SYNC = re.compile(r"(cuda|hip)(Stream|Device|Event)Synchronize")
_COLLECTIVE = re.compile(r"(nccl|gloo|mpi|c10d|record_param_comms)\b", re.IGNORECASE)
_DEVICE = ("kernel", "gpu_memcpy", "gpu_memset")
_SAMPLE = 100.0
"""Microseconds of a function's own time that count as one sample of its line."""
_LIBRARIES = (
    "torch/", "site-packages/", "dist-packages/", "numpy/", "accelerate/", "transformers/", "lightning/",
    "pytorch_lightning/", "deepspeed/", "importlib/", "multiprocessing/", "concurrent/",
)  # fmt: skip

Event = Mapping[str, Any]


def is_trace(path: Path) -> bool:
    """Whether a file looks like a Chrome trace, packed or not."""
    try:
        with open_unpacked(path) as stream:
            head = (stream.read(4096) or b"").lstrip()
    except OSError:
        return False
    return head[:1] in (b"{", b"[") and (
        b'"traceEvents"' in head or b'"schemaVersion"' in head or b'"ph"' in head
    )


def read_trace(*paths: str) -> Recording:
    """The traces of one run, a file a rank.

    Raises `UsageError` for a file that is no trace of PyTorch or has no steps, `Unavailable` for one too large.
    """
    problems: list[str] = []
    processes = [_process(name, place, problems) for place, name in enumerate(paths)]
    ranks = {process.rank: process for process in processes}
    if len(ranks) < len(processes):
        raise UsageError(f"{paths[0]} and others are of the same rank; name one trace for each rank")
    return Recording(
        path=paths[0],
        command=(),
        cwd="",
        started="",
        ranks=tuple(ranks[rank] for rank in sorted(ranks)),
        origin="kineto",
        problems=tuple(problems),
    )


def _process(name: str, place: int, problems: list[str]) -> Process:
    document, events = _events(name)
    steps, home = _steps(events)
    if not steps:
        raise UsageError(f"{name}: no training step in it (no ProfilerStep#N, no Optimizer.step#...)")
    wrong: Counter[str] = Counter()
    info = _object(document.get("distributedInfo"))
    start = judged(
        "start", {"rank": info.get("rank"), "world": info.get("world_size"), "launcher": None}, wrong
    )
    rank = place if start.get("rank") is None else int(start["rank"])
    reader = _Reader(events, home, steps[0][0])
    windows = reader.trained(steps)
    records = (
        Record(type="start", t=0.0, fields={**start, "rank": rank}),
        Record(type="torch", t=0.0, fields=judged("torch", _torch(document), wrong)),
        *reader.lines(windows),
    )
    table = sound("steps", reader.table(windows), wrong)
    if wrong:
        problems.append(f"{name}: {left_out(wrong)}")
    return Process(
        rank=rank,
        node=str(document.get("host_name") or ""),
        pid=0,
        wall=0.0,
        steps=table,
        records=records,
        clean=True,
    )


def _events(name: str) -> tuple[Mapping[str, Any], list[Event]]:
    """The document of a trace and its timed events."""
    try:
        text = read_unpacked(name, TRACE)
        if text.count(b"{") + text.count(b"[") > (1 << 20) + len(text) // TRACE_CONTAINERS:
            raise Unavailable(f"{name}: no profiler trace: it holds brackets and hardly anything in them")
        trace = json.loads(text)
    except OSError as error:
        reason = error.strerror or str(error)
        if TRACE.beyond in reason:
            raise Unavailable(
                f"{name}: {TRACE.beyond}; record fewer steps (profiler schedule active=...)"
            ) from error
        raise UsageError(f"{name}: cannot be read: {reason}") from error
    except ValueError as error:
        raise UsageError(f"{name}: not whole JSON: {error}") from error
    except RecursionError as error:
        raise UsageError(f"{name}: not whole JSON: it nests too deeply") from error
    document = trace if isinstance(trace, dict) else {"traceEvents": trace}
    listed = document.get("traceEvents")
    if not isinstance(listed, list):
        raise UsageError(f"{name}: its traceEvents are no list")
    return document, [item for item in listed if isinstance(item, dict) and _timed(item)]


def _steps(events: Sequence[Event]) -> tuple[Intervals, tuple[Any, Any]]:
    """Windows of the steps, and process and thread of the training.

    Without a schedule the profiler marks no steps: then one lies between the ends of two optimizer steps.
    """
    marked = [item for item in events if _STEP.match(str(item.get("name")))]
    if marked:
        return sorted((_begin(item), _end(item)) for item in marked), _thread(marked[0])
    ends = sorted((item for item in events if str(item.get("name")).startswith("Optimizer.step#")), key=_end)
    if not ends:
        return [], (None, None)
    home = _thread(ends[0])
    first = min(
        _begin(item) for item in events if _thread(item) == home and item.get("cat") != "python_function"
    )
    edges = [first, *(_end(item) for item in ends if _thread(item) == home)]
    return list(pairwise(edges)), home


def _thread(event: Event) -> tuple[Any, Any]:
    return event.get("pid"), event.get("tid")


def _timed(event: Event) -> bool:
    return event.get("ph") == "X" and _number(event.get("ts"), -_FAR) and _number(event.get("dur"), 0.0)


def _number(value: object, least: float) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and least <= value < _FAR


def _begin(event: Event) -> float:
    return float(event["ts"])


def _end(event: Event) -> float:
    return float(event["ts"]) + float(event["dur"])


def _torch(document: Mapping[str, Any]) -> dict[str, Any]:
    devices = document.get("deviceProperties")
    first = _object(devices[0]) if isinstance(devices, list) and devices else {}
    return {
        "device": first.get("name"),
        "device_bytes": first.get("totalGlobalMem"),
        "backend": _object(document.get("distributedInfo")).get("backend"),
    }


def _object(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


class _Reader:
    """Events of one trace, sorted into phases of the training thread and work of the device."""

    def __init__(self, events: Sequence[Event], home: tuple[Any, Any], zero: float) -> None:
        self._zero = zero
        self._main = [item for item in events if _thread(item) == home]
        self._phases = self._exclusive(events)
        self._device = union((_begin(item), _end(item)) for item in events if item.get("cat") in _DEVICE)
        self._copies = union(
            (_begin(item), _end(item))
            for item in events
            if item.get("cat") == "gpu_memcpy" and "HtoD" in str(item.get("name"))
        )
        self._has_device = any(item.get("cat") in _DEVICE for item in events)

    def trained(self, windows: Intervals) -> Intervals:
        """The windows in which something was trained: the last one often holds the end of the loader only."""
        marks = union([*self._phases["optimizer"], *self._phases["backward"]])
        return [window for window in windows if covered(marks, *window) > 0] or windows

    def table(self, windows: Intervals) -> Table:
        """The columns of `steps` that a trace knows."""
        columns: dict[str, array[float] | array[int]] = {
            "index": array("I", range(len(windows))),
            "count": array("I", [1]) * len(windows),
            "t": array("d", ((end - self._zero) / 1e6 for _, end in windows)),
        }
        seconds = [(end - begin) / 1e6 for begin, end in windows]
        columns |= {"duration": array("f", seconds), "longest": array("f", seconds)}
        for name, spans in self._phases.items():
            columns[name] = array("f", (covered(spans, begin, end) / 1e6 for begin, end in windows))
        if self._has_device:
            columns["device_busy"] = array("f", (covered(self._device, *each) / 1e6 for each in windows))
            columns["device_transfer"] = array("f", (covered(self._copies, *each) / 1e6 for each in windows))
        for name, points in self._calls().items():
            columns[name] = array("f", (float(inside(points, begin, end)) for begin, end in windows))
        return Table(columns=columns)

    def lines(self, windows: Intervals) -> list[Record]:
        """Own time of the user's functions, where the trace has Python frames (`with_stack=True`)."""
        frames = sorted(
            ((_begin(item), -_end(item), found) for item in self._main if (found := _user_function(item))),
            key=lambda item: item[:2],
        )
        own: dict[tuple[str, int, str], float] = {}
        stack: list[tuple[float, tuple[str, int, str]]] = []
        for begin, minus_end, key in frames:
            end = min(-minus_end, windows[-1][1])
            begin = max(begin, windows[0][0])
            if end <= begin:
                continue
            while stack and stack[-1][0] <= begin:
                stack.pop()
            own[key] = own.get(key, 0.0) + end - begin
            if stack:
                own[stack[-1][1]] -= min(end, stack[-1][0]) - begin
            stack.append((end, key))
        samples = {key: round(spent / _SAMPLE) for key, spent in own.items() if spent >= _SAMPLE}
        if not samples:
            return []
        counts = [["other", *key, count] for key, count in samples.items()]
        fields = {"samples": sum(samples.values()), "counts": counts}
        return [Record(type="lines", t=(windows[-1][1] - self._zero) / 1e6, fields=fields)]

    def _exclusive(self, events: Sequence[Event]) -> dict[str, Intervals]:
        """Spans of the training thread by phase, none counted twice; what comes first owns its inside."""
        found: dict[str, list[tuple[float, float]]] = {name: [] for name in _ORDER}
        for item in self._main:
            name = _phase(item)
            if name:
                found[name].append((_begin(item), _end(item)))
        # With a device autograd runs in a thread of its own, while this one waits inside backward().
        found["backward"] = [
            (_begin(item), _end(item))
            for item in events
            if str(item.get("name")).startswith("autograd::engine")
        ]
        taken: Intervals = []
        exclusive: dict[str, Intervals] = {}
        for name in _ORDER:
            spans = union(found[name], _BACKWARD_GAP if name == "backward" else 0.0)
            exclusive[name] = without(spans, taken)
            taken = union([*taken, *spans])
        return exclusive

    def _calls(self) -> dict[str, list[float]]:
        """When things began that are counted by step."""
        calls: dict[str, list[float]] = {"reads": [], "syncs": [], "batches": []}
        for item in self._main:
            name = str(item.get("name"))
            if name == "aten::_local_scalar_dense":
                calls["reads"].append(_begin(item))
            elif _SYNC.match(name):
                calls["syncs"].append(_begin(item))
            elif name.startswith("enumerate(DataLoader)"):
                calls["batches"].append(_begin(item))
        calls["backwards"] = [begin for begin, _ in self._phases["backward"]]
        return {name: sorted(points) for name, points in calls.items()}


_ORDER = ("data_wait", "optimizer", "backward", "collective", "sync", "forward")
"""Phases, the owner of what lies inside it first."""


def _phase(event: Event) -> str | None:
    name, category = str(event.get("name")), event.get("cat")
    if name.startswith("enumerate(DataLoader)"):
        return "data_wait"
    if name.startswith(("Optimizer.step#", "Optimizer.zero_grad#")):
        return "optimizer"
    if category in ("cuda_runtime", "cuda_driver") and _SYNC.match(name):
        return "sync"
    if _COLLECTIVE.match(name):
        return "collective"
    if category == "cpu_op" and not name.startswith("autograd::engine"):
        return "forward"
    return None


def _user_function(event: Event) -> tuple[str, int, str] | None:
    """Path, first line and name of a function of the user's own code."""
    if event.get("cat") != "python_function":
        return None
    match = _FUNCTION.fullmatch(str(event.get("name")))
    if match is None or any(folder in match["path"] for folder in _LIBRARIES):
        return None
    root = match["path"].partition("/")[0].removesuffix(".py")
    return None if root in sys.stdlib_module_names else (match["path"], int(match["line"]), match["name"])
