"""Ranks of a watched job against each other: DIST001, DIST004, DIST008."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from statistics import median

from gpudoctor.analysis.live.stack_shares import (
    StackShare,
    Suspect,
    by_hand,
    confirmed,
    device_busy,
    job_gpus,
    level,
    spans,
    taken,
    where,
)
from gpudoctor.model.check import Check
from gpudoctor.model.detail import Detail
from gpudoctor.model.evidence import Measurement
from gpudoctor.model.finding import Cost, Finding, Whose
from gpudoctor.model.severity import Confidence
from gpudoctor.model.signs.process import NAN, ProcessWindow, Rank
from gpudoctor.model.unavailable import Unavailable
from gpudoctor.text import duration, percent
from gpudoctor.text import ranks as named

WAITS = ("collective", "sync")
"""Where a rank stands that waits for others: NCCL's calls return at once, and the wait surfaces at a sync."""
LEAST_LOOKS = 12
"""Samples of each rank before ranks are compared."""
STILL_SECONDS = 60.0
"""WATCH-PREFLIGHT: the same stack for a minute; long evaluations and saves have their own limit."""
_IDLE_CPU, _IDLE_GPU = 0.1, 0.05
_BUSY = frozenset({"checkpoint", "compile", "start"})
"""What may stand for long with idle CPUs and devices: disks, compilers of their own, a rendezvous."""


def late_rank(check: Check, window: ProcessWindow, detail: Callable[[int, str], Detail]) -> Iterator[Finding]:
    """DIST001: the rank that waits least for the others, and what it does instead."""
    ranks = [rank for rank in window.ranks if rank.alive]
    if len(ranks) < 2:
        raise Unavailable("the job has one rank")
    least = min(rank.samples for rank in ranks)
    if least < LEAST_LOOKS:
        raise Unavailable(f"{least} of {LEAST_LOOKS} stack samples of each rank so far")
    waits = {rank.pid: _share(rank, *WAITS) for rank in ranks}
    late = min(ranks, key=lambda rank: waits[rank.pid])
    others = [rank for rank in ranks if rank is not late]
    lost = median(waits[rank.pid] for rank in others) - waits[late.pid]
    count = round(lost * sum(rank.samples for rank in others))
    part, excess = _excess(late, others)
    places = tuple(place for place in late.places if place.phase == part)
    found = StackShare(share=lost, count=count, total=sum(rank.samples for rank in others), places=places)
    severity = level(found, check.limit("share_noted"), check.limit("share_warned"))
    if severity is None:
        return
    named = excess >= check.limit("covered") * lost
    cause = f"; it spends {percent(excess)} more of its time in {part.replace('_', ' ')}{where(places)}"
    yield confirmed(
        check,
        window,
        f"{late.title.capitalize()} makes the others wait, {percent(lost)} of their time"
        f"{cause if named else ''}.",
        found=found,
        severity=severity,
        name="straggler_share",
        whose=Whose.DEVICE,
        detail=detail(late.rank or 0, part if named else ""),
    )


def _share(rank: Rank, *phases: str) -> float:
    return sum(rank.phases.get(phase, 0) for phase in phases) / max(1, rank.samples)


def _excess(late: Rank, others: list[Rank]) -> tuple[str, float]:
    """The phase that the late rank spends more time in than the others do, and how much more."""
    phases = [phase for phase in late.phases if phase not in WAITS] or ["other"]
    more = {phase: _share(late, phase) - median(_share(rank, phase) for rank in others) for phase in phases}
    part = max(more, key=lambda phase: more[phase])
    return part, more[part]


def collectives(
    check: Check, window: ProcessWindow, suspect: Suspect, detail: Callable[[Iterable[str]], Detail]
) -> Iterator[Finding]:
    """DIST004: collectives that the script calls itself; those of DDP and FSDP are no Python frames of it.

    `detail` takes the names of what was called.
    """
    if len(window.ranks) < 2:
        return
    calls = frozenset({"collective", "object-collective"})
    found = taken(window, lambda place: place.kind in calls)
    severity = level(found, check.limit("share_noted"), check.limit("share_warned"))
    if severity is None:
        return
    waits = [_share(rank, *WAITS) for rank in window.ranks if rank.samples >= LEAST_LOOKS]
    if len(waits) == len(window.ranks) and max(waits) - min(waits) > 0.2:
        return  # they wait for one of them, not for the network
    yield confirmed(
        check,
        window,
        f"The ranks wait in collectives that the script calls itself, {found.words}{where(found.places)}.",
        found=found,
        severity=severity,
        name="collective_share",
        whose=Whose.DEVICE,
        detail=detail(place.via for place in found.places),
        suspect=suspect,
    )


def hang(check: Check, window: ProcessWindow, detail: Callable[[int], Detail]) -> Iterator[Finding]:
    """DIST008: nothing moves on any rank; who stands where, merged, and the one that stands elsewhere."""
    ranks = [rank for rank in window.ranks if rank.alive]
    if not ranks or any(not rank.samples for rank in ranks):
        raise Unavailable("not every rank's stack can be read")
    if any(standing_for(rank) < _limit(check, rank) for rank in ranks) or works(window, ranks):
        return
    if len(ranks) == 1 and ranks[0].trail[-1][1] == "data_wait":
        return  # the loader's ailment
    groups = Counter(_leaf(rank) for rank in ranks)
    common = groups.most_common(1)[0][0]
    odd = [rank for rank in ranks if _leaf(rank) != common]
    odd = odd if len(odd) * 2 <= len(ranks) else []
    words = "; ".join(f"{_names([rank for rank in ranks if _leaf(rank) == leaf])} in {leaf}" for leaf in groups)
    who = (
        f"{odd[0].title} stands elsewhere" if len(odd) == 1 else f"{_names(odd)} stand elsewhere" if odd else ""
    )
    shown = [*odd, *(rank for rank in ranks if rank not in odd)][:4]
    silent = min(map(standing_for, ranks))
    yield check.finding(
        f"{seen(ranks)} for {duration(silent)} on any rank{f'; {who}' if who else ''}: {words}.",
        evidence=(
            *[span for rank in shown for span in spans(rank.places[:1], most=1)],
            Measurement(
                name="seconds_without_a_sign", value=round(silent, 1), unit="s", reproduce=by_hand(window)
            ),
        ),
        confidence=Confidence.CONFIRMED,
        cost=Cost(breaks="the training makes no progress"),
        subject=odd[0].title if len(odd) == 1 else "",
        detail=detail(odd[0].rank if odd and odd[0].rank is not None else -1),
    )


def standing_for(rank: Rank) -> float:
    """Seconds for which a rank has shown no sign of work: the same stack, no step, no CPU time and no bytes.

    A loop that mostly sleeps on one line has the same stack at every look, and makes steps. Who waits for the
    others may poll: its CPU time is no work.
    """
    waits = bool(rank.trail) and rank.trail[-1][1] in WAITS
    signs = (rank.still, rank.stepless, NAN if waits else rank.quiet)
    return min(seconds for seconds in signs if seconds == seconds)


def seen(ranks: Sequence[Rank]) -> str:
    """What was looked for in vain, no more than that."""
    signs = ["step"] if all(rank.stepless == rank.stepless for rank in ranks) else []
    if all(rank.quiet >= standing_for(rank) for rank in ranks):
        signs.append("CPU time of the main thread")
    signs.append("other line")
    return f"No {' and no '.join(filter(None, (', no '.join(signs[:-1]), signs[-1])))} was seen"


def _limit(check: Check, rank: Rank) -> float:
    """Seconds of standing still that are too many in what it does."""
    phase = rank.trail[-1][1] if rank.trail else ""
    step = rank.steps.seconds if rank.steps and rank.steps.seconds == rank.steps.seconds else 0.0
    return check.limit("busy_seconds") if phase in _BUSY else max(STILL_SECONDS, 10 * step)


def works(window: ProcessWindow, ranks: Sequence[Rank]) -> bool:
    """Whether the devices, or without any the CPUs, are at work all the same.

    A kernel of NCCL that waits counts as busy but draws little power.
    """
    busy = device_busy(window)
    if busy is None:
        return any(rank.cpu > _IDLE_CPU for rank in ranks)
    drawn = [
        gpu.power.last / gpu.power_limit for gpu in job_gpus(window) if gpu.power_limit and gpu.power.known()
    ]
    return busy > _IDLE_GPU and (not drawn or max(drawn) > 0.5)


def _leaf(rank: Rank) -> str:
    """Where it stands: the library's function that it waits in, and the user's line."""
    place = rank.places[0] if rank.places else None
    if place is None:
        return rank.stack[-1].label if rank.stack else "an unknown place"
    return f"{place.via} at {place.label}" if place.via else place.label


def _names(ranks: list[Rank]) -> str:
    """`ranks 0-6`, `rank 7`."""
    numbers = sorted(rank.rank for rank in ranks if rank.rank is not None)
    if not numbers:
        return ", ".join(rank.title for rank in ranks[:4])
    return named(numbers)
