"""The probe's one thread: it looks at the training thread's stack, writes what waits, shows that we live.

`threading` does not know it: a program that joins all threads, or waits until only its own are left, does not
wait for ours. So nothing here may call `threading.current_thread()`, which would enter it into that list.
"""

from __future__ import annotations

import _thread
import json
import os
import sys
from time import perf_counter, thread_time
from typing import TYPE_CHECKING, Any

from .call_sites import PROBE, Place, rows_of
from .clock import DATA_WAIT, NAMES
from .stacks import draws, line_of, stack_of_thread
from .table import AT, OTHER
from .wire.frames import private
from .wire.steps import PHASES

if TYPE_CHECKING:
    from collections.abc import Callable

    from .probe import Probe
    from .stacks import Spot

INTERVAL = 0.02
"""Seconds between two looks at the stack."""
MANY, SHARE, RAREST = 150, 0.0025, 0.1
"""After so many looks they may cost this share of the time, and come at least once in so many seconds."""
HANDED = 2.0
"""What a look costs the training, in times of its own: the lock changes hands twice (measured)."""
WRITE = 1.0
"""Seconds between two writes."""
EARLY = (0.1, 2.0)
"""Seconds between two writes of the first steps, and for how long: a run killed soon has steps to show."""
SWITCH = 0.0001
"""Seconds that the sampler waits for the interpreter's lock before it asks for it.

With Python's own 5 ms a loop that is shorter is never seen: the look always falls on the next call that gives
the lock away, and a line that takes 58 % of a 13 ms step gets 26 % of the looks (measured; 57 % with this).
"""
MEMORY = 0.1
"""Seconds between two readings of the resident memory (15 µs each): a leak is to be seen in 50 steps."""
LINES = ((4, 1.0), (1024, 5.0), (2048, 20.0), (3072, 120.0), (1 << 30, 600.0))
"""Up to so many records of lines, one every so many seconds."""
COUNTED_LATE = sys.version_info >= (3, 13)
"""Whether `os.fork` counts threads when its hooks have run."""
_MOST = 100
"""Lines of one record, the most frequent first."""


class Sampler:
    """A daemon thread; it never calls into torch, and does not exist while the process forks."""

    def __init__(self, probe: Probe) -> None:
        self._probe = probe
        self._interval = float(probe.settings.get("interval", INTERVAL))
        self._thread: Thread | None = None
        self.paused = False
        """Whether a fork has stopped the thread."""
        self._tick = probe.guard.safely("sampler", self._look)
        self._write = probe.guard.safely("writer", self._write_all)
        self._flush = probe.guard.safely("writer", probe.flush)
        self._compiles = probe.guard.safely("compile", probe.compiling.look)
        self._ending = probe.guard.safely("ending", probe.known.look)
        self._latest = probe.guard.safely("exception", lambda: probe.deaths.look())
        self._seen = self._written = self._read = self._flushed = perf_counter()
        self._trains = 0.0
        self.lines = Lines(self._probe)
        self._live = Live(self._probe)
        self._heart = Heart(self._probe)

    def start(self) -> None:
        """Start the thread, if it does not run."""
        if self._thread is None and self._probe.guard.wanted("sampler"):
            self._thread = Thread(self._run)

    def stop(self) -> None:
        """Stop it and wait for it."""
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.stop(1.0)

    def pause(self) -> None:
        """Before a fork: Python 3.12 and later warn when there are threads."""
        self.paused = self.paused or self._thread is not None
        self._probe.clock.quick = False  # at the end of such a step nobody would start it again
        self.stop()

    def resume(self) -> None:
        """After a fork, in the parent: at once, or where Python counts threads after that, at the next call of
        a hook.
        """
        if not COUNTED_LATE:
            self.go_on()

    def go_on(self) -> None:
        """Start the thread that a fork has stopped."""
        if self.paused:
            self.paused = False
            self.start()

    def last(self) -> None:
        """What is left at the end."""
        self._latest()
        self.lines.write()
        self._live.remove()

    def _run(self, wake: Any) -> None:
        before = sys.getswitchinterval()
        if before > SWITCH:
            sys.setswitchinterval(SWITCH)
        try:
            self._sample(wake)
        finally:
            if abs(sys.getswitchinterval() - SWITCH) < SWITCH / 2:  # the program may have set its own meanwhile
                sys.setswitchinterval(before)

    def _sample(self, wake: Any) -> None:
        interval = self._interval
        self._seen = perf_counter()
        looks, cost = 0, 0.0
        while not wake.acquire(True, interval):
            begin = thread_time()
            self._tick()
            looks += 1
            cost += (thread_time() - begin - cost) / min(looks, 50)
            if looks > MANY:
                interval = min(max(self._interval, HANDED * cost / SHARE), RAREST)
            if perf_counter() - self._read >= MEMORY:
                self._read = perf_counter()
                self._probe.steps.rss = self._probe.memory.rss = rss()
                self._ending()
            if perf_counter() - self._written >= WRITE:
                self._written = self._flushed = perf_counter()
                self._write()
            elif self._probe.steps.index:
                # The rows of the first seconds of training.
                now = perf_counter()
                self._trains = self._trains or now
                every, last = EARLY
                if now - self._trains < last and now - self._flushed >= every:
                    self._flushed = now
                    self._flush()

    def _look(self) -> None:
        """One look at the stack of the training thread (or of a loader's worker)."""
        now = perf_counter()
        # A call that holds the interpreter's lock delays the look, which then stands for all of that time.
        spent = min(now - self._seen, 2.0)
        self._seen = now
        probe = self._probe
        worker = probe.worker
        clock = probe.clock
        ident = worker.ident if worker is not None else clock.ident
        stack = stack_of_thread(ident)
        if not stack:
            return
        if worker is not None:
            phase = worker.phase
            if not phase:
                return
        else:
            number = clock.phase
            if number == OTHER and draws(probe.steps.stack, stack):
                probe.steps.drawn += spent
                number = DATA_WAIT
            phase = NAMES[number]
        self.lines.add(phase, stack, spent / self._interval)

    def _write_all(self) -> None:
        probe = self._probe
        if probe.file is None:
            return
        self._compiles()
        probe.flush()
        if probe.worker is not None:
            probe.worker.write()
        else:
            self._live.write()
            self._heart.beat()
            self._latest()
        if self.lines.due():
            self.lines.write()


class Thread:
    """A thread of the interpreter's that is in no list of `threading`'s; it ends with the process."""

    def __init__(self, run: Callable[[Any], None]) -> None:
        self._wake = _thread.allocate_lock()
        self._wake.acquire()
        joinable = getattr(_thread, "start_joinable_thread", None)  # Python 3.13
        self._handle = None
        if joinable is not None:
            self._handle = joinable(lambda: run(self._wake), daemon=True)
        else:
            self._started = _thread.allocate_lock()
            self._started.acquire()
            self._sentinel: Any = None
            _thread.start_new_thread(self._run, (run,))
            self._started.acquire()

    def _run(self, run: Callable[[Any], None]) -> None:
        # Released by the interpreter when the thread's state is gone, as `threading.Thread` has it.
        self._sentinel = getattr(_thread, "_set_sentinel")()  # noqa: B009 - gone in Python 3.13
        self._sentinel.acquire()
        self._started.release()
        run(self._wake)

    def stop(self, seconds: float) -> None:
        """Wake it, and wait until it has ended, so many seconds at most. Not from the thread itself."""
        self._wake.release()
        if self._handle is not None:
            self._handle.join(seconds)
        else:
            self._sentinel.acquire(True, seconds)


class Lines:
    """Counts of looks by phase and by the user's line."""

    def __init__(self, probe: Probe) -> None:
        self._probe = probe
        self._written = perf_counter()
        self._records = 0
        self._counts: dict[tuple[Any, ...], list[Any]] = {}
        self._open: dict[tuple[Any, ...], list[Any]] = {}
        """Those of a step that has not ended: after the last one, what is no step at all."""
        self._step = 0

    def add(self, phase: str, stack: list[Spot], weight: float) -> None:
        """One look; `weight` is in intervals of the sampler."""
        places = self._probe.places
        user = places.user_index(stack)
        place: Place = (None, None, None)
        if user is not None:
            code = stack[user][0]
            place = (code.co_filename, line_of(stack[user]), code.co_name)
        key = (phase, *place)
        if self._step != self._probe.steps.index:
            self._close()
        entry = self._open.get(key)
        if entry is None:
            if len(self._open) >= 4 * _MOST:
                return
            entry = self._open[key] = [place, 0.0, {}]
        entry[1] += weight
        if user != 0:
            shown = places.instrument(stack[:user]) or stack[0][0]
            below = (shown.co_filename, shown.co_name)
            entry[2][below] = entry[2].get(below, 0) + weight

    def _close(self) -> None:
        """The step that the looks fell into is over. (The other thread may be adding: it gets a new table.)"""
        self._step = self._probe.steps.index
        opened, self._open = self._open, {}
        for key, (place, weight, below) in list(opened.items()):
            entry = self._counts.get(key)
            if entry is None:
                if len(self._counts) < 4 * _MOST:
                    self._counts[key] = [place, weight, below]
                continue
            entry[1] += weight
            for name, share in list(below.items()):
                entry[2][name] = entry[2].get(name, 0) + share

    def due(self) -> bool:
        """Whether it is time for a record."""
        if not self._counts and not self._open:
            return False
        every = next(seconds for records, seconds in LINES if self._records < records)
        return perf_counter() - self._written >= every

    def write(self) -> None:
        """Write what was seen since the last record; what fell into a step that has not ended by itself."""
        if self._step != self._probe.steps.index or not self._probe.steps.index:
            self._close()
        self._written = perf_counter()
        ended, self._counts = self._counts, {}
        opened, self._open = self._open, {}
        for counts, more in ((ended, {}), (opened, {"open": True})):
            if counts:
                self._records += 1
                self._write(counts, more)

    def _write(self, counts: dict[tuple[Any, ...], list[Any]], more: dict[str, Any]) -> None:
        rows: list[list[Any]] = []
        leaves: list[list[Any]] = []
        for (phase, *_), (place, weight, below) in sorted(counts.items(), key=lambda item: -item[1][1])[:_MOST]:
            for (path, name), share in sorted(below.items(), key=lambda item: -item[1])[:2]:
                if not path.startswith(PROBE):
                    leaves.append([len(rows), path, name, round(share, 1)])
            rows.append([phase, *place, round(weight, 1)])
        fields: dict[str, Any] = {
            "samples": round(sum(entry[1] for entry in list(counts.values())), 1),
            "interval": INTERVAL,
            "counts": rows,
            "leaves": leaves[:_MOST],
            **more,
        }
        self._probe.record("lines", fields)


_PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096


def rss() -> float:
    """Resident bytes of this process's own; NaN where the system does not say.

    Pages of files and shared memory are left out: a memory-mapped data set that is read for the first time
    would look like a leak.
    """
    try:
        with open("/proc/self/statm", "rb") as stream:
            _, resident, shared = stream.read().split()[:3]
            return float((int(resident) - int(shared)) * _PAGE)
    except (OSError, ValueError, IndexError):
        return float("nan")


# Signs of life: the small file for the parent's live line, and what is written when no step ends any more.

BEAT = 10.0
"""Seconds without the end of a step before the first heartbeat; the next is at twice that, up to `BEATS`."""
BEATS = 60.0
USUAL = 20.0
"""A heartbeat needs so many usual steps, too."""


class Live:
    """`live-RANK-PID.json`: how far this rank is."""

    def __init__(self, probe: Probe) -> None:
        self._probe = probe
        self._steps = 0
        self._last = 0.0
        self._path = ""

    def write(self) -> None:
        """Replace it, if a step has ended meanwhile."""
        steps = self._probe.steps
        done, last = steps.index, steps.last
        if done <= self._steps:
            return
        fields: dict[str, Any] = {
            "step": done,
            "seconds": (last - self._last) / (done - self._steps) if self._last else None,
            "phases": self._shares(),
            "phase": NAMES[self._probe.clock.phase],
            "peak": self._newest("peak") or self._newest("allocated"),
            "reserved": self._newest("reserved"),
        }
        self._steps, self._last = done, last
        identity = self._probe.identity
        self._path = os.path.join(identity.folder, f"live-{identity.label}-{identity.pid}.json")
        temporary = self._path + ".new"
        with open(temporary, "w", encoding="utf-8", opener=private) as stream:
            json.dump(fields, stream)
        os.replace(temporary, self._path)

    def _shares(self) -> dict[str, float]:
        columns = self._probe.recent
        total = sum(columns[AT["duration"]]) if columns else 0.0
        if not total:
            return {}
        return {name: round(sum(columns[AT[name]]) / total, 4) for name in PHASES}

    def _newest(self, column: str) -> float | None:
        """Its last known value in the steps written last."""
        columns = self._probe.recent
        known = [value for value in columns[AT[column]] if value == value] if columns else []
        return known[-1] if known else None

    def remove(self) -> None:
        """The process ends."""
        if self._path:
            os.unlink(self._path)


class Heart:
    """Writes where the training thread is when no step has ended for a while."""

    def __init__(self, probe: Probe) -> None:
        self._probe = probe
        self._first = float(probe.settings.get("heartbeat", BEAT))
        self._step = -1
        self._next = 0.0
        self._usual = 0.0

    def beat(self) -> None:
        """Called once a second."""
        steps, clock = self._probe.steps, self._probe.clock
        waited = perf_counter() - steps.last
        if steps.index != self._step:
            if self._probe.recent:
                durations = sorted(self._probe.recent[AT["duration"]])
                self._usual = durations[len(durations) // 2]
            self._step = steps.index
            self._next = max(self._first, USUAL * self._usual)
        if waited < self._next:
            return
        self._next = waited + min(waited, BEATS)
        stack = stack_of_thread(clock.ident)
        fields = {"step": steps.index, "phase": NAMES[clock.phase], "seconds": round(waited, 3)}
        self._probe.record("heartbeat", {**fields, "stack": rows_of(stack)})
