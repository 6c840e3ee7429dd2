"""The input pipeline of a watched job: DATA001, DATA002, DATA009, DATA010."""

from collections.abc import Callable, Iterator

from gpudoctor.analysis.live.rank_positions import standing_for
from gpudoctor.analysis.live.stack_shares import (
    StackShare,
    Suspect,
    by_hand,
    confirmed,
    device_busy,
    hidden,
    job_gpus,
    level,
    spans,
    taken,
    where,
)
from gpudoctor.model.check import Check
from gpudoctor.model.detail import Detail
from gpudoctor.model.evidence import Measurement
from gpudoctor.model.finding import Cost, Finding
from gpudoctor.model.severity import Confidence, Severity
from gpudoctor.model.signs.process import Place, ProcessWindow, Rank, Worker
from gpudoctor.text import duration, percent

INLINE = frozenset({"loader-inline", "loader-collate", "loader-pin"})
"""Kinds of stacks in which the training process makes the batch itself."""
_HANDED = "loader-receive"
_STARTED = "loader-start"


def loader_bound(
    check: Check, window: ProcessWindow, suspect: Suspect, detail: Callable[[bool, int], Detail]
) -> Iterator[Finding]:
    """DATA001: waiting for the next batch; starting workers anew is another ailment.

    `detail` takes whether it trains on a GPU, and the number of workers.
    """
    found = waiting(window)
    severity = level(found, check.limit("share_noted"), check.limit("share_warned"))
    if severity is None:
        return
    covered = hidden(window)
    cause = "the GPU has work queued meanwhile, so little is lost" if covered else _cause(window, found)
    yield confirmed(
        check,
        window,
        f"The training waits for its next batch, {found.words}; {cause}.",
        found=found,
        severity=Severity.NOTE if covered else severity,
        name="data_wait_share",
        suspect=suspect,
        numbers=_device(window),
        detail=detail(bool(job_gpus(window)), max((len(rank.workers) for rank in window.ranks), default=0)),
    )


def waiting(window: ProcessWindow) -> StackShare:
    """Samples in which a rank waits for data."""
    phase = "data_wait" if not any(place.kind == _STARTED for place in window.places) else ""
    return taken(window, lambda place: place.phase == "data_wait" and place.kind != _STARTED, phase=phase)


def _cause(window: ProcessWindow, found: StackShare) -> str:
    """Why, as a clause: who makes the batches, and whether they are busy."""
    inline = [place for place in found.places if place.kind in INLINE]
    if sum(place.count for place in inline) * 2 >= found.count > 0:
        return f"the process makes every item itself{where(inline)}"
    workers = [worker for rank in window.ranks for worker in rank.workers]
    if not workers:
        return f"it stands{where(found.places)}"
    busy = [worker.cpu for worker in workers if worker.cpu == worker.cpu]
    load = f", busy for {percent(min(1.0, sum(busy) / len(busy)))}" if busy else ""
    return f"{len(workers)} workers make the items{load}{where(window.worker_places)}"


def slow_preprocessing(
    check: Check, window: ProcessWindow, suspect: Suspect, detail: Detail
) -> Iterator[Finding]:
    """DATA002: the making of items is most of the wait; the function and the line."""
    found = waiting(window)
    if level(found, check.limit("wait_share"), check.limit("share_warned")) is None or hidden(window):
        return
    inline = taken(window, lambda place: place.kind in INLINE and bool(place.path))
    own = _hottest(inline.places, inline.count)
    who = "the training process"
    if inline.share < check.limit("own_share") * found.share:
        made = tuple(place for place in window.worker_places if place.kind in INLINE and place.path)
        seen = sum(place.count for place in window.worker_places)
        count = sum(place.count for place in made)
        if seen < 10 or count < check.limit("own_share") * seen:
            return
        own, who = _hottest(made, count), f"each of {_most_workers(window)} workers"
    if own is None:
        return
    part = StackShare(share=found.share, count=found.count, total=found.total, places=own, exact=found.exact)
    yield confirmed(
        check,
        window,
        f"Most of the wait for data ({found.words}) is the making of items: {who} spends it{where(own)}.",
        found=part,
        severity=Severity.WARNING if found.share >= check.limit("share_warned") else Severity.NOTE,
        name="preprocessing_share",
        suspect=suspect,
        detail=detail,
    )


def _hottest(places: tuple[Place, ...], count: int) -> tuple[Place, ...] | None:
    """Places of the function that most samples fell on; None where none stands out."""
    sums: dict[tuple[str, str], int] = {}
    for place in places:
        sums[place.path, place.function] = sums.get((place.path, place.function), 0) + place.count
    if not sums:
        return None
    top = max(sums, key=lambda key: sums[key])
    if sums[top] * 3 < count:
        return None
    return tuple(place for place in places if (place.path, place.function) == top)


def storage_bound(check: Check, window: ProcessWindow) -> Iterator[Finding]:
    """DATA009: the workers sleep on a disk while the training waits."""
    found = waiting(window)
    workers = [worker for rank in window.ranks for worker in rank.workers]
    if level(found, check.limit("wait_share"), 1.0) is None or hidden(window):
        return
    disk = sum(worker.disk_share for worker in workers) / len(workers) if workers else 0.0
    own = sum(rank.state == "D" for rank in window.ranks) / len(window.ranks)
    disk = max(disk, own if not workers else 0.0)
    io_wait = window.host.io_wait.mean
    if disk < check.limit("disk_share") and not io_wait >= check.limit("io_wait"):
        return
    asleep = _asleep(window.ranks, workers)
    yield confirmed(
        check,
        window,
        f"The training waits for its data, {found.words}, and meanwhile its workers wait for a disk "
        f"{percent(disk)} of their time{asleep} (I/O wait of the CPUs "
        f"{percent(io_wait) if io_wait == io_wait else 'not known'}).",
        found=found,
        severity=Severity.WARNING,
        name="data_wait_share",
        numbers=(
            Measurement(
                name="workers_disk", value=round(disk, 4), unit="1", reproduce="ps -eo pid,state,wchan"
            ),
        ),
    )


def _asleep(ranks: tuple[Rank, ...], workers: list[Worker]) -> str:
    channels = [worker.wait_channel for worker in workers if worker.wait_channel]
    channels += [rank.wait_channel for rank in ranks if rank.wait_channel]
    return f", in {channels[0]}" if channels else ""


def loader_dead(check: Check, window: ProcessWindow, detail: Callable[[bool], Detail]) -> Iterator[Finding]:
    """DATA010: a worker that went away, or a wait for one batch that does not end."""
    for rank in window.ranks:
        if not rank.alive:
            continue
        if rank.lost_workers:
            pids = ", ".join(str(worker.pid) for worker in rank.lost_workers[:4])
            count = len(rank.lost_workers)
            yield check.finding(
                f"{count} loader worker{'s' * (count > 1)} of {rank.title} died (pid {pids}) while the others "
                "run on.",
                evidence=(
                    Measurement(name="workers_lost", value=count, unit="{workers}", reproduce="dmesg | tail"),
                ),
                confidence=Confidence.CONFIRMED,
                cost=Cost(breaks="the training fails or waits for ever"),
                subject=rank.title,
                detail=detail(False),
            )
        elif (
            rank.trail
            and rank.trail[-1][1] == "data_wait"
            and standing_for(rank) >= check.limit("wait_seconds")
        ):
            waited = standing_for(rank)
            yield check.finding(
                f"{rank.title.capitalize()} has been waiting for one batch for "
                f"{duration(waited)}{_workers(rank)}.",
                evidence=(
                    *spans(rank.places[:1]),
                    Measurement(
                        name="wait_seconds", value=round(waited, 1), unit="s", reproduce=by_hand(window)
                    ),
                ),
                confidence=Confidence.CONFIRMED,
                cost=Cost(breaks="the training makes no progress"),
                subject=rank.title,
                detail=detail(True),
            )


def _workers(rank: Rank) -> str:
    if not rank.workers:
        return ""
    asleep = sum(worker.cpu < 0.02 for worker in rank.workers if worker.cpu == worker.cpu)
    return f"; {asleep} of its {len(rank.workers)} workers do nothing"


def _most_workers(window: ProcessWindow) -> int:
    return max((len(rank.workers) for rank in window.ranks), default=0)


def _device(window: ProcessWindow) -> tuple[Measurement, ...]:
    busy = device_busy(window)
    if busy is None:
        return ()
    return (
        Measurement(name="gpu_busy_share", value=round(busy, 4), unit="1", reproduce="nvidia-smi dmon -s u"),
    )
