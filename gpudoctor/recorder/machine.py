"""Samples the machine beside the run into machine.gdr: a row a second, thinning out, bounded at any length."""

import math
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread
from typing import Any

from gpudoctor.probe.wire.frames import FrameWriter, columns_frame, json_frame, json_text
from gpudoctor.recorder.folder import MACHINE
from gpudoctor.vitals.host.meter import HostMeter
from gpudoctor.vitals.nvml.child_feed import ChildFeed
from gpudoctor.vitals.process.procfs import ProcessUsage, tree, usage

# The parent's side of the GPU sampler: starts the child, takes its newest reading, never waits for it.

_LONGEST_LINE = 1 << 20
"""Bytes of one line of the child; a longer one is none of ours."""


class GpuReadings:
    """Readings of the GPUs that the command sees. Every method returns at once."""

    def __init__(self, environment: Mapping[str, str], interval: float = 1.0) -> None:
        self.facts: list[dict[str, Any]] | None = None
        """Name, `bytes` and `power_limit` of each GPU; None until the driver has answered."""
        self._child: ChildFeed | None = None
        visible = environment.get("CUDA_VISIBLE_DEVICES", "all") or "-"
        order = environment.get("CUDA_DEVICE_ORDER", "")
        words = ("sampling", visible, order, str(interval))
        try:
            self._child = ChildFeed(*words, longest=_LONGEST_LINE, environment=environment)
        except OSError:
            self.facts = []

    def latest(self) -> list[dict[str, float]]:
        """The newest sample of each GPU since the last call; empty when there is none."""
        newest: list[dict[str, float]] = []
        if self._child is None:
            return newest
        for record in self._child.records():
            if record.get("record") == "gpus":
                self.facts = list(record["gpus"])
            elif record.get("record") == "sample":
                newest = list(record["gpus"])
        if self._child.ended and self.facts is None:  # there is no driver, or no GPU
            self.facts = []
        return newest

    def close(self) -> None:
        """End the child."""
        if self._child is not None:
            self._child.close()


INTERVAL = 1.0
FIRST_ROWS, LATER_ROWS = 3600, 1800
"""Rows of one sample, then rows of 2, then of 4... (docs/recording.md, Size)."""
_BLOCK = 10
"""Rows of a block: what a `kill -9` of the recorder costs, in seconds."""
_DRIVER_PATIENCE = 15.0
"""Seconds that the facts wait for the driver, which may have to wake the cards."""
_SHARE = 0.01
"""Of one CPU, the most that sampling takes: a machine with many processes is looked at less often."""
_MEMORY = 4
"""Samples over which the cost is smoothed: the first one loads files that later ones find in memory."""
_PEAKS = ("memory", "tree_rss", "swap", "_memory", "_temperature", "_width", "_generation", "_replays")
"""Columns of which a row keeps the highest sample, not the mean: peaks, counters, a link at its best."""
_LOWEST = ("_margin",)
"""And those of which it keeps the lowest."""

Row = dict[str, float]


class MachineSampler:
    """Samples in a thread until `close`. Whatever fails here ends the sampling and nothing else."""

    def __init__(self, folder: Path, root: int, gpus: GpuReadings, started: float) -> None:
        self.lost_bytes = 0
        self.error: str | None = None
        self._folder, self._root = folder, root
        self._gpus, self._started = gpus, started
        self._stop = Event()
        self._thread = Thread(target=self._work, name="machine", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Write what is left and end."""
        self._stop.set()
        self._thread.join(5.0)

    def _work(self) -> None:
        try:
            self._sample()
        except Exception as error:  # noqa: BLE001  # the run goes on without this; end.json says so
            self.error = f"{type(error).__name__}: {error}"

    def _sample(self) -> None:
        import psutil  # noqa: F401  # loading it is no cost of a sample

        host = HostMeter()
        command = _Command(self._root, self._folder)
        rows = Thinning()
        writer = _Writer(self._folder / MACHINE)
        facts_due = time.monotonic() + _DRIVER_PATIENCE
        ready: list[Row] = []
        pause = usual = 0.0
        while not self._stop.wait(pause):
            began, spent = time.monotonic(), time.thread_time()
            row = {"t": began - self._started, **host.sample(began), **command.sample(began)}
            for index, gpu in enumerate(self._gpus.latest()):
                row |= {f"gpu{index}_{name}": value for name, value in gpu.items()}
            ready += rows.add(row)
            if not writer.has_facts and (self._gpus.facts is not None or began > facts_due):
                writer.facts(began - self._started, self._facts(host))
            if writer.has_facts and len(ready) >= _BLOCK:
                writer.block(ready)
                ready = []
            self.lost_bytes = writer.lost
            usual += (time.thread_time() - spent - usual) / _MEMORY
            pause = max(INTERVAL, usual / _SHARE)
        if not writer.has_facts:
            writer.facts(time.monotonic() - self._started, self._facts(host))
        writer.block(ready + rows.rest())
        writer.close()
        self.lost_bytes = writer.lost

    def _facts(self, host: HostMeter) -> dict[str, object]:
        return {"gpus": self._gpus.facts or [], **host.limits()}


class Thinning:
    """Rows of several samples, more of them the longer the run: means, but for peaks, masks and the time."""

    def __init__(self) -> None:
        self._factor, self._left = 1, FIRST_ROWS
        self._open: list[Row] = []

    def add(self, sample: Row) -> list[Row]:
        """The row that this sample completes, if it does."""
        self._open.append(sample)
        if len(self._open) < self._factor:
            return []
        row = _merged(self._open)
        self._open = []
        self._left -= 1
        if self._left == 0:
            self._factor, self._left = self._factor * 2, LATER_ROWS
        return [row]

    def rest(self) -> list[Row]:
        """The row that was not completed."""
        return [_merged(self._open)] if self._open else []


def _merged(samples: list[Row]) -> Row:
    if len(samples) == 1:
        return samples[0]
    names = dict.fromkeys(name for sample in samples for name in sample)
    return {name: _one(name, [sample[name] for sample in samples if name in sample]) for name in names}


def _one(name: str, values: list[float]) -> float:
    known = [value for value in values if not math.isnan(value)]
    if not known:
        return math.nan
    if name == "t":
        return known[-1]
    if name.endswith("_reasons"):
        mask = 0
        for value in known:
            mask |= int(value)
        return float(mask)
    if name.endswith(_PEAKS):
        return max(known)
    if name.endswith(_LOWEST):
        return min(known)
    return sum(known) / len(known)


class _Command:
    """The command's processes, summed."""

    def __init__(self, root: int, folder: Path) -> None:
        self._root, self._folder = root, folder
        self._cpu: dict[int, float] = {}
        self._at = 0.0

    def sample(self, now: float) -> Row:
        seen = {pid: found for pid in tree(self._root) if (found := usage(pid)) is not None}
        # A new process brought its CPU time within the interval; one that is gone took its last part away.
        spent = sum(max(0.0, found.cpu - self._cpu.get(pid, 0.0)) for pid, found in seen.items())
        row = {"tree_rss": float(sum(found.rss for found in seen.values())), **self._workers(seen)}
        if self._at:
            row["tree_cpu"] = spent / max(1e-3, now - self._at)
        self._cpu, self._at = {pid: found.cpu for pid, found in seen.items()}, now
        return row

    def _workers(self, seen: Mapping[int, ProcessUsage]) -> Row:
        """Loader workers: each has a file in the folder, worker-RANK-PARENT-PID.gdr."""
        pids: set[str] = set()
        with suppress(OSError):
            pids.update(path.stem.rpartition("-")[2] for path in self._folder.glob("worker-*.gdr"))
        states = [found.state for pid, found in seen.items() if str(pid) in pids and found.state not in "ZX"]
        return {"workers": float(len(states)), "workers_disk": float(states.count("D"))}


class _Writer:
    """machine.gdr. A full disk costs rows, counted, and nothing else."""

    def __init__(self, path: Path) -> None:
        self.lost = 0
        self.has_facts = False
        self._file: FrameWriter | None = None
        with suppress(OSError):
            self._file = FrameWriter(path)

    def facts(self, t: float, fields: Mapping[str, object]) -> None:
        self.has_facts = True
        self._append(json_frame(json_text("facts", t, fields)))

    def block(self, rows: list[Row]) -> None:
        if rows:
            names = dict.fromkeys(name for row in rows for name in row)
            values = [[row.get(name, math.nan) for row in rows] for name in names]
            self._append(columns_frame("machine", [(name, "d") for name in names], values))

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    def _append(self, data: bytes) -> None:
        try:
            if self._file is None:
                raise OSError
            self._file.append(data)
        except OSError:
            self.lost += len(data)
