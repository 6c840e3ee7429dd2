"""Waiting for data: which loader, how long, at the start of epochs or all the time, and who makes the items."""

import math
from collections.abc import Callable, Mapping, Sequence
from statistics import median

from gpudoctor.analysis.memo import once
from gpudoctor.analysis.run.line_costs import LineCost, LinePlace, lines, place_of, worker_lines
from gpudoctor.analysis.run.run_numbers import sampled
from gpudoctor.analysis.run.steady_state import Steady, steady
from gpudoctor.model.records import frozen
from gpudoctor.model.signs.recording import Process, Record, Recording

_BURST = 10.0
"""A wait this many times the median is one for a whole pipeline to start."""
_BURST_IN_TIME = 3.0
"""The same where it comes when an epoch begins."""
_STEP = frozenset({"forward", "backward", "optimizer"})
_WITHIN = 5
"""Steps without a start that tell what an ordinary wait is."""
_LEAST_BURST = 0.002
"""Seconds below which a wait is no start of processes: a fork takes longer."""


@frozen
class LoaderFacts:
    """A training loader as the run had it."""

    workers: int
    persistent: bool
    pinned: bool
    batch_size: int | None
    dataset: str
    iterable: bool
    """Whether each worker would run the whole stream."""
    place: LinePlace | None


@frozen
class BatchWait:
    """How a process waits for its batches."""

    share: float
    """Share of step time (0..1)."""
    starts: float
    """Of it, at the first batch of each pass over the loader, beyond an ordinary wait: a share of step time."""
    epochs: int
    """Starts of passes seen in steady state."""
    start_seconds: float
    """Seconds of such a start, the median; 0 without one."""
    per_step: float
    """Seconds a step."""
    steps: int = 0
    """Steps in steady state."""

    @property
    def each_step(self) -> bool:
        """Whether a pass begins in most steps: the loader is iterated anew for each batch."""
        return 2 * self.epochs > self.steps > 0

    @property
    def always(self) -> float:
        """Share of step time that is waited at every batch."""
        return max(0.0, self.share - self.starts)


@frozen
class WorkerActivity:
    """What loader workers did."""

    count: int
    busy: float
    """Share of their time in fetch and collate (0..1)."""
    item_seconds: float
    """Seconds an item."""


@once
def training_loader(process: Process) -> LoaderFacts | None:
    """The loader that feeds the steps; the last made of those that train, None where hooks saw none."""
    loaders: dict[object, Record] = {item.get("id"): item for item in process.of("loader")}
    training = [item for item in loaders.values() if item.get("role") == "training"]
    if not training:
        return None
    item = training[-1]
    return LoaderFacts(
        workers=_whole(item.get("workers")) or 0,
        persistent=bool(item.get("persistent")),
        pinned=bool(item.get("pin_memory")),
        batch_size=_whole(item.get("batch_size")),
        dataset=str(item.get("dataset") or ""),
        iterable=bool(item.get("iterable")),
        place=place_of(item),
    )


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


@once
def waiting(process: Process) -> BatchWait:
    """How a process waits in steady state."""
    state = steady(process)
    waits = [value if math.isfinite(value) else 0.0 for value in state.values("data_wait")]
    usual = _usual(state, waits)
    rows = _epoch_rows(state, waits, usual)
    extra = [waits[row] - usual for row in rows]
    return BatchWait(
        share=state.share("data_wait"),
        starts=sum(extra) / state.seconds if state.seconds else 0.0,
        epochs=len(rows),
        start_seconds=median(extra) if extra else 0.0,
        per_step=state.per_step("data_wait"),
        steps=state.steps,
    )


def _usual(state: Steady, waits: Sequence[float]) -> float:
    """The wait of a step in which no pass over the loader begins, the median.

    Where a pass begins in every step, workers are started in each: all of the wait is theirs.
    """
    begun = state.values("starts")
    within = [wait for wait, count in zip(waits, begun, strict=False) if not count] if any(begun) else waits
    if 2 * len(within) >= len(waits) or len(within) >= _WITHIN:
        return median(within) if within else 0.0
    loader = training_loader(state.process)
    return 0.0 if loader is not None and loader.workers else median(waits)


def _epoch_rows(state: Steady, waits: Sequence[float], usual: float) -> list[int]:
    """Positions in the steady rows of the waits with which epochs begin.

    Where the recorder counted the passes that begin, the rows in which one does, as far as they wait long; in
    recordings without that count every wait that towers over the usual one.
    """
    begun = state.values("starts")
    rows: list[int] = []
    if any(state.process.steps.column("starts")):  # the first pass begins before the steady state
        least = max(_BURST_IN_TIME * usual, _LEAST_BURST)
        for i in (i for i, count in enumerate(begun) if count):
            # Where a step ends as a batch is drawn, the wait for the first one is the next row's.
            late = i + 1 < len(waits) and not begun[i + 1] and waits[i + 1] > waits[i]
            if waits[i + late] > least:
                rows.append(i + late)
        return rows
    return [i for i, wait in enumerate(waits) if wait > max(_BURST * usual, _LEAST_BURST)]


@once
def workers(recording: Recording, rank: int) -> WorkerActivity | None:
    """The loader workers of a rank; None where none reported."""
    found = [worker for worker in recording.workers if worker.rank == rank]
    # cumulative: of each worker and loader the last record counts
    last = {(worker.pid, item.get("loader")): item for worker in found for item in worker.of("items")}
    items = list(last.values())
    busy = sum(_number(item, "busy") for item in items)
    idle = sum(_number(item, "waiting") for item in items)
    count = sum(_number(item, "items") for item in items)
    if not items or busy + idle <= 0:
        return None
    return WorkerActivity(count=len(found), busy=busy / (busy + idle), item_seconds=busy / count if count else 0.0)


def _number(item: Record, name: str) -> float:
    value = item.get(name)
    return float(value) if isinstance(value, int | float) else 0.0


def item_lines(
    recording: Recording, process: Process, heads: Callable[[LinePlace], bool] | None = None
) -> list[LineCost]:
    """The user's lines that make items: in the workers where there are some, else in the main thread's waits.

    `share` is of the samples taken there. Lines of the functions that train, under which torch fetches and
    collates, are left out; `heads` tells a line that is the head of a loop.
    """
    inside = list(worker_lines(recording, process.rank))
    training: set[tuple[str, str]] = set()
    if not inside:
        every = lines(process)
        inside = [item for item in every if item.phase == "data_wait"]
        training = {(item.place.path, item.place.function) for item in every if item.phase in _STEP}
    total = sum(item.samples for item in inside)
    return [
        LineCost(phase=item.phase, place=item.place, samples=item.samples, share=item.samples / total)
        for item in inside
        if (item.place.path, item.place.function) not in training and not (heads and heads(item.place))
    ]


def disk_waits(recording: Recording) -> Mapping[str, float]:
    """How the machine waited for disks in steady state: share of workers in D state, I/O wait of its CPUs."""
    disk, alive, io = (sampled(recording, name) for name in ("workers_disk", "workers", "io_wait"))
    found: dict[str, float] = {}
    if disk and sum(alive) > 0:
        found["workers_disk"] = sum(disk) / sum(alive)
    if io:
        found["io_wait"] = sum(io) / len(io)
    return found
