"""Traces of the PyTorch profiler (Kineto, Chrome trace JSON) as recordings.

A step is a `ProfilerStep#N` of `prof.step()`; without a schedule it is what ends in an optimizer step.
Phases are what the profiler's annotations and operators of the training thread say: loader, optimizer,
autograd, collectives, waits for the device; other operators are the forward pass. Format:
github.com/pytorch/kineto, `libkineto/src/output_json.cpp`.
"""

import gzip
import json
import re
import sys
from array import array
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from gpudoctor.errors import UsageError
from gpudoctor.model.signs.recording import Process, Record, Recording, Table
from gpudoctor.model.unavailable import Unavailable
from gpudoctor.vitals.recording.intervals import Intervals, covered, inside, union, without

GREATEST = 1 << 30
"""Bytes of a trace, unpacked: reading JSON takes about ten times that in memory."""
_STEP = re.compile(r"ProfilerStep#(\d+)")
_FUNCTION = re.compile(r"(?P<path>[^<(][^(]*\.py)\((?P<line>\d+)\): (?P<name>.+)")
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
        head = _open(path).read(4096).lstrip()
    except (OSError, EOFError):
        return False
    return head[:1] in (b"{", b"[") and (
        b'"traceEvents"' in head or b'"schemaVersion"' in head or b'"ph"' in head
    )


def read_trace(*paths: str) -> Recording:
    """The traces of one run, a file a rank.

    Raises `UsageError` for a file that is no trace of PyTorch or has no steps, `Unavailable` for one too large.
    """
    processes = [_process(name, place) for place, name in enumerate(paths)]
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
    )


def _open(path: Path) -> Any:
    with path.open("rb") as stream:
        packed = stream.read(2) == b"\x1f\x8b"
    return gzip.open(path, "rb") if packed else path.open("rb")


def _process(name: str, place: int) -> Process:
    try:
        with _open(Path(name)) as stream:
            text = stream.read(GREATEST + 1)
        if len(text) > GREATEST:
            raise Unavailable(f"{name}: larger than 1 GiB; record fewer steps (profiler schedule active=...)")
        trace = json.loads(text)
    except OSError as error:
        raise UsageError(f"{name}: cannot be read: {error.strerror or error}") from error
    except (ValueError, EOFError) as error:
        raise UsageError(f"{name}: not whole JSON: {error}") from error
    document = trace if isinstance(trace, dict) else {"traceEvents": trace}
    events = [item for item in document.get("traceEvents") or () if isinstance(item, dict) and _timed(item)]
    steps, home = _steps(events)
    if not steps:
        raise UsageError(f"{name}: no training step in it (no ProfilerStep#N, no Optimizer.step#...)")
    info = document.get("distributedInfo") or {}
    rank = int(info["rank"]) if isinstance(info.get("rank"), int) else place
    reader = _Reader(events, home, steps[0][0])
    windows = reader.trained(steps)
    records = (
        Record(type="start", t=0.0, fields={"rank": rank, "world": info.get("world_size"), "launcher": None}),
        Record(type="torch", t=0.0, fields=_torch(document)),
        *reader.lines(windows),
    )
    return Process(
        rank=rank,
        node=str(document.get("host_name") or ""),
        pid=0,
        wall=0.0,
        steps=reader.table(windows),
        records=records,
        clean=True,
    )


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
    return event.get("ph") == "X" and isinstance(event.get("ts"), int | float) and isinstance(
        event.get("dur"), int | float
    )  # fmt: skip


def _begin(event: Event) -> float:
    return float(event["ts"])


def _end(event: Event) -> float:
    return float(event["ts"]) + float(event["dur"])


def _torch(document: Mapping[str, Any]) -> dict[str, Any]:
    devices = document.get("deviceProperties") or ()
    first = devices[0] if devices and isinstance(devices[0], dict) else {}
    return {
        "device": first.get("name"),
        "device_bytes": first.get("totalGlobalMem"),
        "backend": (document.get("distributedInfo") or {}).get("backend"),
    }


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
