"""What only grows in a watched job: memory, and the time of a step."""

from gpudoctor.analysis.run.memory_growth import steady_rise
from gpudoctor.analysis.run.trends import Trend, kept_level
from gpudoctor.lang import say
from gpudoctor.model.check import Check
from gpudoctor.model.evidence import Measurement
from gpudoctor.model.finding import Confidence, Cost, Finding, Resource, Severity
from gpudoctor.model.proof import LeakDetail, LeakKind
from gpudoctor.model.records import frozen
from gpudoctor.model.signs.process import ProcessWindow, Rank, Series
from gpudoctor.model.unavailable import Unavailable
from gpudoctor.text import duration, forecast, size

WARM_UP = 0.25
"""Part of a watch whose growth is set aside: caches, lazily loaded libraries, the allocator's pool."""
LEAST_SECONDS = 60.0
LEAST_POINTS = 50
"""Values below which a trend of memory is not judged: a leak shows over 50 steps or looks."""


@frozen
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
    xs, ys = series.t[start:], kept_level(series.values[start:])
    if len(xs) < LEAST_POINTS * (1 - WARM_UP) or xs[-1] - xs[0] < LEAST_SECONDS * (1 - WARM_UP):
        return None
    found = steady_rise(xs, ys)
    if found is None:
        return None
    return Growing(rank=rank, trend=found, rate=found.slope, now=series.last, seconds=xs[-1] - xs[0])


def long_enough(window: ProcessWindow) -> None:
    """Raise `Unavailable` while the watch is too young for a trend."""
    if window.t < LEAST_SECONDS:
        raise Unavailable(
            "watched for {watched} of {least_seconds} that {what} takes",
            watched=duration(window.t),
            least_seconds=duration(LEAST_SECONDS),
            what="a trend of memory",
        )


def of_rank(rank: Rank) -> str:
    """` of rank 3`; "" where the job has one."""
    return say(" of {title}", title=rank.title) if rank.rank is not None else ""


def leak(check: Check, found: Growing, words: str, total: float | None, breaks: str, scarce: Resource) -> Finding:
    """The finding of memory that grows, which has so many bytes in all."""
    left = found.full_in(total) if total is not None else float("inf")
    soon = left <= check.limit("day")
    who = of_rank(found.rank)
    full = say(", and is full in {forecast}", forecast=forecast(left)) if left < 1e8 else ""
    return check.finding(
        say(
            "{words}{who} grows by {rate} a minute (watched for {seconds}){full}.",
            words=words,
            who=who,
            rate=size(found.rate * 60),
            seconds=duration(found.seconds),
            full=full,
        ),
        evidence=(
            Measurement("bytes_per_minute", round(found.rate * 60), "B", reproduce=f"ps -o rss= -p {found.rank.pid}"),
            Measurement("memory_now", int(found.now), "B"),
        ),
        confidence=Confidence.CONFIRMED,
        severity=Severity.ERROR if soon else Severity.WARNING,
        cost=Cost(breaks=breaks if soon else None, bytes=int(found.trend.growth)),
        subject=found.rank.title,
        scarce=scarce,
        detail=LeakDetail(kind=LeakKind.WORKERS if found.rank.workers else LeakKind.OBJECTS),
    )
