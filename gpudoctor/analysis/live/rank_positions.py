"""Ranks of a watched job: where each stands, for how long, and whether anything moves."""

from collections.abc import Sequence

from gpudoctor.analysis.live.stack_shares import device_busy, job_gpus
from gpudoctor.lang import say
from gpudoctor.model.signs.process import NAN, ProcessWindow, Rank

WAITS = ("collective", "sync")
"""Where a rank stands that waits for others: NCCL's calls return at once, and the wait surfaces at a sync."""
LEAST_LOOKS = 12
"""Samples of each rank before ranks are compared."""
STOOD = 5.0
"""Seconds without any sign of work on any rank after which paces are not compared: it may be a hang."""
_IDLE_CPU, _IDLE_GPU = 0.1, 0.05


def phase_share(rank: Rank, *phases: str) -> float:
    """Share of a rank's samples in these phases."""
    return sum(rank.phases.get(phase, 0) for phase in phases) / max(1, rank.samples)


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
        signs.append(say("CPU time of the main thread"))
    signs.append(say("other line"))
    return say("No {signs} was seen", signs=" and no ".join(filter(None, (", no ".join(signs[:-1]), signs[-1]))))


def works(window: ProcessWindow, ranks: Sequence[Rank]) -> bool:
    """Whether the devices, or without any the CPUs, are at work all the same.

    A kernel of NCCL that waits counts as busy but draws little power.
    """
    busy = device_busy(window)
    if busy is None:
        return any(rank.cpu > _IDLE_CPU for rank in ranks)
    drawn = [gpu.power.last / gpu.power_limit for gpu in job_gpus(window) if gpu.power_limit and gpu.power.known()]
    return busy > _IDLE_GPU and (not drawn or max(drawn) > 0.5)


def stands_still(window: ProcessWindow) -> bool:
    """Whether nothing moved on any rank for a while."""
    ranks = [rank for rank in window.ranks if rank.alive]
    stood = bool(ranks) and all(rank.samples and standing_for(rank) >= STOOD for rank in ranks)
    return stood and not works(window, ranks)


def workers_stand_still(window: ProcessWindow) -> bool:
    """Whether nothing moved, and loader workers did nothing either."""
    workers = [worker for rank in window.ranks for worker in rank.workers]
    return bool(workers) and not any(worker.cpu > _IDLE_CPU for worker in workers) and stands_still(window)
