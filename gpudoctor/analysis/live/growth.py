"""Memory of a watched job that only grows: MEM001, MEM002; step time that drifts: PERF013."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from gpudoctor.analysis.live.stack_shares import job_gpus
from gpudoctor.analysis.run.trends import Trend, trend
from gpudoctor.model.check import Check
from gpudoctor.model.detail import Detail
from gpudoctor.model.evidence import Measurement
from gpudoctor.model.finding import Cost, Finding, Resource, Whose
from gpudoctor.model.leak import LeakDetail, LeakKind
from gpudoctor.model.severity import Confidence, Severity
from gpudoctor.model.signs.process import ProcessWindow, Rank, Series
from gpudoctor.model.unavailable import Unavailable
from gpudoctor.text import duration, forecast, size

WARM_UP = 0.25
"""Part of a watch whose growth is set aside: caches, lazily loaded libraries, the allocator's pool."""
LEAST_SECONDS = 60.0
LEAST_POINTS = 50
"""Values below which a trend of memory is not judged: a leak shows over 50 steps or looks."""
SURE = 1e-3
"""Two-sided probability that so clear an order is chance."""
_RISING = 0.6


@dataclass(frozen=True, slots=True, kw_only=True)
class Growing:
    """A quantity that rose all the time."""

    rank: Rank
    trend: Trend
    rate: float
    """Units a second."""
    now: float
    seconds: float
    """That it was watched for, warm-up set aside."""

    def full_in(self, total: float) -> float:
        """Seconds until it reaches a size; infinite when it never does."""
        return (total - self.now) / self.rate if self.rate > 0 else float("inf")


def growing(rank: Rank, series: Series) -> Growing | None:
    """The steady growth of a series after its warm-up; None where there is none, or it has come to rest."""
    start = int(len(series.t) * WARM_UP)
    xs, ys = series.t[start:], series.values[start:]
    if len(xs) < LEAST_POINTS * (1 - WARM_UP) or xs[-1] - xs[0] < LEAST_SECONDS * (1 - WARM_UP):
        return None
    found = trend(xs, ys)
    if found is None or found.p > SURE or found.rising < _RISING or found.slope <= 0:
        return None
    if found.late_slope < 0.3 * found.slope:
        return None  # it comes to rest
    return Growing(rank=rank, trend=found, rate=found.slope, now=series.last, seconds=xs[-1] - xs[0])


def long_enough(window: ProcessWindow) -> None:
    """Raise `Unavailable` while the watch is too young for a trend."""
    if window.t < LEAST_SECONDS:
        raise Unavailable(
            f"watched for {duration(window.t)} of {duration(LEAST_SECONDS)} that a trend of memory takes"
        )


def device_leak(check: Check, window: ProcessWindow) -> Iterator[Finding]:
    """MEM001: bytes that a rank holds on its GPUs."""
    if not any(rank.device_memory.values for rank in window.ranks):
        raise Unavailable("the driver does not report how much device memory the processes hold")
    long_enough(window)
    found = [one for rank in window.ranks if (one := growing(rank, rank.device_memory))]
    worst = max(found, key=lambda one: one.rate, default=None)
    if worst is None or worst.trend.growth < check.limit("grown"):
        return
    cards = [gpu for gpu in job_gpus(window) if gpu.index in worst.rank.gpus and gpu.memory_total]
    room = sum(float(gpu.memory_total or 0) - gpu.memory.last for gpu in cards if gpu.memory.known())
    total = worst.now + room if cards else None
    yield _finding(
        check, worst, "The device memory", total, "the device runs out of memory", Resource.DEVICE_MEMORY
    )


def host_leak(check: Check, window: ProcessWindow) -> Iterator[Finding]:
    """MEM002: resident bytes of a rank and its workers."""
    long_enough(window)
    found = [one for rank in window.ranks if (one := growing(rank, rank.tree_rss))]
    worst = max(found, key=lambda one: one.rate, default=None)
    if worst is None or worst.trend.growth < check.limit("grown"):
        return
    host = window.host
    room = host.memory_total - host.memory.last if host.memory.known() and host.memory_total else None
    total = worst.now + room if room is not None else None
    words = "The memory of the training and its workers" if worst.rank.workers else "The memory of the training"
    yield _finding(check, worst, words, total, "the machine runs out of memory", Resource.HOST_MEMORY)


def step_drift(check: Check, window: ProcessWindow, detail: Callable[[str], Detail]) -> Iterator[Finding]:
    """PERF013: step times that rise, of ranks that `gpudoctor run` records."""
    timed = [rank for rank in window.ranks if rank.step_seconds.values]
    if not timed:
        raise Unavailable("steps can be timed only where `gpudoctor run` records the job")
    if window.t < LEAST_SECONDS:
        raise Unavailable(f"watched for {duration(window.t)} of {duration(LEAST_SECONDS)} that a drift takes")
    found = [one for rank in timed if (one := growing(rank, rank.step_seconds)) and one.trend.first > 0]
    worst = max(found, key=lambda one: one.trend.growth / one.trend.first, default=None)
    if worst is None or worst.trend.growth < check.limit("share_noted") * worst.trend.first:
        return
    first, last = worst.trend.first, worst.trend.last
    phases = worst.rank.steps.phases if worst.rank.steps is not None else {}
    yield check.finding(
        f"A step{_of(worst.rank)} takes {duration(last)} and took {duration(first)} "
        f"{duration(worst.seconds)} ago (p={worst.trend.p:.1g}).",
        evidence=(
            Measurement(name="step_time_rise", value=round(last / first - 1, 4), unit="1"),
            Measurement(name="step_seconds_now", value=last, unit="s"),
        ),
        confidence=Confidence.CONFIRMED,
        severity=Severity.WARNING if last / first - 1 >= check.limit("share_warned") else Severity.NOTE,
        cost=Cost(step_share=1 - first / last, whose=Whose.STEPS),
        subject=worst.rank.title,
        detail=detail(max(phases, key=lambda name: phases[name], default="other")),
    )


def _of(rank: Rank) -> str:
    return f" of {rank.title}" if rank.rank is not None else ""


def _finding(
    check: Check, found: Growing, words: str, total: float | None, breaks: str, scarce: Resource
) -> Finding:
    left = found.full_in(total) if total is not None else float("inf")
    soon = left <= check.limit("day")
    who = _of(found.rank)
    full = f", and is full in {forecast(left)}" if left < 1e8 else ""
    return check.finding(
        f"{words}{who} grows by {size(found.rate * 60)} a minute (watched for {duration(found.seconds)}, "
        f"p={found.trend.p:.1g}){full}.",
        evidence=(
            Measurement(
                name="bytes_per_minute",
                value=round(found.rate * 60),
                unit="B",
                reproduce=f"ps -o rss= -p {found.rank.pid}",
            ),
            Measurement(name="memory_now", value=int(found.now), unit="B"),
        ),
        confidence=Confidence.CONFIRMED,
        severity=Severity.ERROR if soon else Severity.WARNING,
        cost=Cost(breaks=breaks if soon else None, bytes=int(found.trend.growth)),
        subject=found.rank.title,
        scarce=frozenset({scarce}),
        detail=LeakDetail(kind=LeakKind.WORKERS if found.rank.workers else LeakKind.OBJECTS),
    )
