"""Traces of the PyTorch profiler (Kineto: Chrome trace JSON) as recordings.

A step is a `ProfilerStep#N` of `prof.step()`; without a schedule it is what ends in an optimizer step, and
without both the whole trace is one step. Phases are what annotations, operators and calls of the runtime on the
training thread say: loader, optimizer, autograd, collectives, waits for the device; other operators are the
forward pass. The device's columns are what its kernels and copies say; of collectives and of copies to
the device they count what no computation hides.
"""

from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from gpudoctor.errors import UsageError
from gpudoctor.lang import say
from gpudoctor.model.signs.recording import Process, Record, Recording, Table
from gpudoctor.text import count
from gpudoctor.vitals.recording.chrome import is_trace, read_events
from gpudoctor.vitals.recording.fields import judged, left_out
from gpudoctor.vitals.recording.plausibility import sound
from gpudoctor.vitals.recording.trace_intervals import (
    SETUP,
    DeviceWait,
    HostThread,
    Intervals,
    Key,
    Trace,
    as_object,
    covered,
    facts,
    inside,
    union,
    without,
)

_SAMPLE = 100.0
"""Microseconds of a function's own time that count as one sample of its line."""
_OTHER = "other"
_FEW = 30
"""Steps below which the reader is told that a trace speaks of them alone."""


def read_trace(*paths: str) -> Recording:
    """The traces of one run, a file a rank.

    Raises `UsageError` for a file that is no trace of PyTorch, `Unavailable` for one too large.
    """
    problems: list[str] = []
    processes = [_process(name, place, problems) for place, name in enumerate(paths)]
    ranks = {process.rank: process for process in processes}
    if len(ranks) < len(processes):
        raise UsageError("{paths} and others are of the same rank; give one trace per rank", paths=paths[0])
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
    trace = Trace()
    document: Mapping[str, Any] = read_events(name, trace.take)
    home = trace.home()
    marker, steps = _steps(trace, home)
    if not steps:
        raise UsageError("{name}: no training step in it, and no operation of the host or of a device", name=name)
    wrong: Counter[str] = Counter()
    info = as_object(document.get("distributedInfo"))
    start = judged("start", {"rank": info.get("rank"), "world": info.get("world_size"), "launcher": None}, wrong)
    rank = place if start.get("rank") is None else int(start["rank"])
    reader = _Reader(trace, trace.threads.get(home or "", HostThread()), steps)
    table = sound("steps", reader.table(), wrong)
    records = (
        Record(type="start", t=0.0, fields={**start, "rank": rank}),
        Record(type="torch", t=0.0, fields=judged("torch", facts(document), wrong)),
        Record(type="loop", t=0.0, fields={"marker": marker}),
        *([Record(type="launches", t=0.0, fields={})] if _unanswered(trace) else []),
        *reader.lines(),
        *reader.sites(),
    )
    problems += [
        say("{name}: {sentence}", name=name, sentence=sentence) for sentence in _silent(trace, marker, reader.steps)
    ]
    if wrong:
        problems.append(say("{name}: {left_out}", name=name, left_out=left_out(wrong)))
    return Process(
        rank=rank, node=str(document.get("host_name") or ""), pid=0, wall=0.0, steps=table, records=records, clean=True
    )


def _unanswered(trace: Trace) -> bool:
    """Whether it holds launches, and nothing of what the device did with them."""
    return trace.card() is None and bool(trace.launches)


def _silent(trace: Trace, marker: str, steps: int) -> list[str]:
    """What a trace cannot show, a sentence each."""
    said = []
    if marker == "trace":
        said.append(
            say("it marks no step, so gpudoctor reads all of it as one; call prof.step() at the end of each iteration")
        )
    elif steps < _FEW:
        said.append(say("it has {steps}; gpudoctor cannot see what happens less often", steps=count(steps, "step")))
    if _unanswered(trace):
        said.append(say("it has launches but no kernels, so the device's work is unknown; add ProfilerActivity.CUDA"))
    elif trace.card() is None:
        said.append(say("it has no work of a device"))
    elif trace.python:
        said.append(
            say("it records each call of Python (with_stack), which slows the host and makes the device look idle")
        )
    if trace.card() is not None and not trace.threads:
        said.append(say("it has only the device's work, so the host's work is unknown"))
    return said


def _steps(trace: Trace, home: str | None) -> tuple[str, Intervals]:
    """What marks a step, and the windows of the steps."""
    if trace.marks:
        return "profiler", sorted((begin, end) for begin, end, _ in trace.marks.values())
    thread = trace.threads.get(home or "")
    if thread is not None and len(thread.optimizers):
        edges = [min(thread.first, min(thread.optimizers)), *sorted(thread.optimizers)]
        return "optimizer", [window for window in pairwise(edges) if window[1] > window[0]]
    return "trace", [(trace.begin, trace.end)] if trace.end > trace.begin else []


class _Reader:
    """The columns and records of one trace."""

    def __init__(self, trace: Trace, home: HostThread, windows: Intervals) -> None:
        self._trace = trace
        self._home = home
        self._zero = windows[0][0]
        self._card = trace.card()
        self._device = self._card.every.union() if self._card is not None else []
        self._phases = trace.phases(home, self._device)
        self._phases.pop(SETUP)
        self._windows = self._drained(self._trained(windows))

    @property
    def steps(self) -> int:
        """Steps that were read."""
        return len(self._windows)

    def _trained(self, windows: Intervals) -> Intervals:
        """The windows in which something was trained, or done: the last often holds the loader's end only."""
        for names in (("optimizer", "backward"), ("forward",)):
            marks = union(span for name in names for span in self._phases[name])
            kept = [window for window in windows if covered(marks, *window) > 0]
            if kept:
                return kept
        return windows

    def _drained(self, windows: Intervals) -> Intervals:
        """A single step ends with the device's work; each of several begins with what the last one left."""
        if len(windows) != 1 or not self._device:
            return windows
        begin, end = windows[0]
        return [(begin, max(end, self._device[-1][1]))]

    def table(self) -> Table:
        """The columns of `steps` that a trace knows."""
        windows = self._windows
        columns: dict[str, array[float] | array[int]] = {
            "index": array("I", range(len(windows))),
            "count": array("I", [1]) * len(windows),
            "t": array("d", ((end - self._zero) / 1e6 for _, end in windows)),
        }
        seconds = [(end - begin) / 1e6 for begin, end in windows]
        columns |= {"duration": array("f", seconds), "longest": array("f", seconds)}
        for name, spans in (self._phases | self._of_device()).items():
            columns[name] = array("f", (covered(spans, begin, end) / 1e6 for begin, end in windows))
        if "device_busy" in columns:
            busy = columns["device_busy"]
            columns["device_idle"] = array("f", map(_rest, seconds, busy))
            named = zip(*(columns[f"idle_{name}"] for name in self._phases), strict=True)
            columns["idle_other"] = array("f", map(_rest, columns["device_idle"], map(sum, named)))
        for name, points in self._calls().items():
            columns[name] = array("f", (float(inside(points, begin, end)) for begin, end in windows))
        return Table(columns=columns)

    def _of_device(self) -> dict[str, Intervals]:
        """The device's work; of collectives and copies to it what nothing hides."""
        card = self._card
        if card is None:
            return {}
        compute, collectives = card.compute.union(), card.collective.union()
        return {
            "device_busy": self._device,
            "device_collective": without(collectives, compute),
            "device_transfer": without(card.to_device.union(), union([*compute, *collectives])),
            **{f"idle_{name}": without(spans, self._device) for name, spans in self._phases.items()},
        }

    def lines(self) -> list[Record]:
        """Own time of the user's functions by phase, where the trace has Python frames (`with_stack=True`)."""
        own: dict[tuple[str, int], float] = {}
        for begin, end, key in self._segments():
            rest = end - begin
            for name, spans in self._phases.items():
                spent = covered(spans, begin, end)
                if spent > 0:
                    own[name, key] = own.get((name, key), 0.0) + spent
                    rest -= spent
            own[_OTHER, key] = own.get((_OTHER, key), 0.0) + rest
        names = list(self._trace.functions)
        counts: list[list[str | int]] = [
            [phase, *names[key], round(spent / _SAMPLE)] for (phase, key), spent in own.items() if spent >= _SAMPLE
        ]
        if not counts:
            return []
        fields = {"samples": sum(int(item[-1]) for item in counts), "counts": counts}
        return [Record(type="lines", t=(self._windows[-1][1] - self._zero) / 1e6, fields=fields)]

    def _segments(self) -> Iterator[tuple[float, float, int]]:
        """Times in which a function of the user's, and none that it calls, was the innermost."""
        first, last = self._windows[0][0], self._windows[-1][1]
        stack: list[tuple[float, int]] = []
        at = first
        for begin, end, key in (*_ordered(self._home), (last, last, -1)):
            begin = min(max(begin, first), last)
            while stack and stack[-1][0] <= begin:
                until, inner = stack.pop()
                if until > at:
                    yield at, until, inner
                    at = until
            if stack and begin > at:
                yield at, begin, stack[-1][1]
            at = max(at, begin)
            stack.append((min(end, last), key))

    def sites(self) -> list[Record]:
        """Calls in which the host waited for the device, by what was called and the user's function."""
        home, trace = self._home, self._trace
        every = (*trace.waits(home), *trace.setups(home, self._device))
        waits = [wait for wait in every if self._step_at(wait.begin) is not None]
        found: dict[tuple[object, ...], list[DeviceWait]] = {}
        for wait, key in zip(waits, self._functions_at([wait.begin for wait in waits]), strict=True):
            found.setdefault((wait.phase, wait.what, key), []).append(wait)
        return [self._site(phase, what, key, group) for (phase, what, key), group in found.items()]

    def _site(self, phase: object, what: object, key: Any, waits: Sequence[DeviceWait]) -> Record:
        path, line, function = key or ("", 0, "")
        lengths = [(wait.end - wait.begin) / 1e6 for wait in waits]
        fields: Mapping[str, Any] = {
            "phase": _OTHER if phase == SETUP else phase, "what": what, "path": path, "line": line,
            "function": function, "calls": len(waits), "seconds": sum(lengths), "longest": max(lengths),
            "tensor": phase == "sync", "whole": True,
            "steps": len({self._step_at(wait.begin) for wait in waits}),
        }  # fmt: skip
        return Record(type="site", t=(self._windows[-1][1] - self._zero) / 1e6, fields=fields)

    def _step_at(self, moment: float) -> int | None:
        place = bisect_left(self._windows, moment, key=lambda window: window[1])
        return place if place < len(self._windows) and self._windows[place][0] <= moment else None

    def _functions_at(self, moments: Sequence[float]) -> list[Key | None]:
        """The innermost function of the user's at each moment; None where the trace has no Python frames."""
        names = list(self._trace.functions)
        found: list[Key | None] = [None] * len(moments)
        if not names:
            return found
        frames, place = _ordered(self._home), 0
        stack: list[tuple[float, int]] = []
        for index in sorted(range(len(moments)), key=moments.__getitem__):
            moment = moments[index]
            while place < len(frames) and frames[place][0] <= moment:
                while stack and stack[-1][0] <= frames[place][0]:
                    stack.pop()
                stack.append((frames[place][1], frames[place][2]))
                place += 1
            while stack and stack[-1][0] < moment:
                stack.pop()
            found[index] = names[stack[-1][1]] if stack else None
        return found

    def _calls(self) -> dict[str, Sequence[float]]:
        """When things began that are counted by step."""
        return {
            "reads": self._trace.reads(self._home),
            "syncs": sorted(begin for begin, _, _ in self._home.waits),
            "batches": sorted(self._home.batches),
            "backwards": [begin for begin, _ in self._phases["backward"]],
        }


def _rest(whole: float, part: float) -> float:
    return max(0.0, whole - part)


def _ordered(thread: HostThread) -> list[tuple[float, float, int]]:
    """Functions of the user's by their begin, the outer one first."""
    return sorted(zip(*thread.frames, strict=True), key=lambda frame: (frame[0], -frame[1]))


__all__ = ["is_trace", "read_trace"]
