"""What a watched job pays for reading, printing, saving and watching itself: SYNC and OBS, and what is left."""

from collections.abc import Iterator

from gpudoctor.analysis.live.stack_shares import (
    StackShare,
    Suspect,
    confirmed,
    device_busy,
    enough,
    hidden,
    level,
    taken,
    where,
)
from gpudoctor.model.check import Check
from gpudoctor.model.detail import Detail
from gpudoctor.model.evidence import Measurement
from gpudoctor.model.finding import Finding, Whose
from gpudoctor.model.signs.process import Place, ProcessWindow
from gpudoctor.text import duration, percent

READS = frozenset({"read", "print-tensor"})
_PROFILERS = frozenset({"profile", "flops"})
_EXPLAINED = frozenset({"metric", "sleep", "debugger"})


def host_sync(check: Check, window: ProcessWindow, suspect: Suspect, detail: Detail) -> Iterator[Finding]:
    """SYNC001: lines that read a tensor; where the device is busy all the while the wait is its work's."""
    found = taken(window, lambda place: place.kind in READS)
    severity = level(found, check.limit("share_noted"), check.limit("share_warned"))
    if severity is None or hidden(window):
        return
    busy = device_busy(window)
    idle = f"; the GPU is busy for {percent(busy)}" if busy is not None else ""
    yield confirmed(
        check,
        window,
        f"The host waits at lines that read a tensor, {found.words}{where(found.places)}{idle}.",
        found=found,
        severity=severity,
        name="sync_share",
        suspect=suspect,
        detail=detail,
    )


def metrics(check: Check, window: ProcessWindow, suspect: Suspect, detail: Detail) -> Iterator[Finding]:
    """SYNC004: metric libraries in the loop."""
    found = taken(window, lambda place: place.kind == "metric")
    yield from _cost(check, window, found, "computes metrics in the loop", "metrics_share", suspect, detail)


def profiler(check: Check, window: ProcessWindow, suspect: Suspect, detail: Detail) -> Iterator[Finding]:
    """OBS001: a profiler or a counter of FLOPs at work."""
    found = taken(window, lambda place: place.kind in _PROFILERS)
    yield from _cost(check, window, found, "profiles itself", "profiler_share", suspect, detail, Whose.DEVICE)


def logging(check: Check, window: ProcessWindow, suspect: Suspect, detail: Detail) -> Iterator[Finding]:
    """OBS002: trackers, prints, progress bars, log files."""
    found = taken(window, lambda place: place.phase == "logging", phase="logging")
    yield from _cost(check, window, found, "logs", "logging_share", suspect, detail)


def checkpoint(check: Check, window: ProcessWindow, suspect: Suspect, detail: Detail) -> Iterator[Finding]:
    """OBS003: saves, of which several must have been seen: one alone says nothing about their period."""
    yield from _recurring(check, window, "checkpoint", "saves", "checkpoint_share", suspect, detail)


def evaluation(check: Check, window: ProcessWindow, suspect: Suspect, detail: Detail) -> Iterator[Finding]:
    """OBS004: the same for evaluations."""
    yield from _recurring(
        check, window, "evaluation", "evaluates", "evaluation_share", suspect, detail, Whose.DEVICE
    )


def unexplained(check: Check, window: ProcessWindow, detail: Detail) -> Iterator[Finding]:
    """PERF014: the user's lines that are no known phase and no known ailment."""
    found = taken(window, lambda place: place.phase == "other" and place.kind not in _EXPLAINED)
    severity = level(found, check.limit("share_noted"), check.limit("share_warned"))
    if severity is None or hidden(window):
        return
    yield confirmed(
        check,
        window,
        f"{found.words} fall on lines of the program that are not part of a training step and that nothing "
        f"else explains{where(found.places)}.",
        found=found,
        severity=severity,
        name="unexplained_share",
        detail=detail,
    )


def _cost(
    check: Check,
    window: ProcessWindow,
    found: StackShare,
    does: str,
    name: str,
    suspect: Suspect,
    detail: Detail,
    whose: Whose = Whose.HOST,
) -> Iterator[Finding]:
    severity = level(found, check.limit("share_noted"), check.limit("share_warned"))
    if severity is None:
        return
    yield confirmed(
        check,
        window,
        f"The training {does}, {found.words}{where(found.places)}{_by(found.places)}.",
        found=found,
        whose=whose,
        severity=severity,
        name=name,
        suspect=suspect,
        detail=detail,
    )


def _recurring(
    check: Check,
    window: ProcessWindow,
    phase: str,
    does: str,
    name: str,
    suspect: Suspect,
    detail: Detail,
    whose: Whose = Whose.HOST,
) -> Iterator[Finding]:
    enough(window)
    times = episodes(window, phase)
    found = taken(window, lambda place: place.phase == phase, phase=phase)
    if len(times) < check.limit("events"):
        return
    period = (times[-1] - times[0]) / (len(times) - 1)
    severity = level(found, check.limit("share_noted"), check.limit("share_warned"))
    if severity is None:
        return
    yield confirmed(
        check,
        window,
        f"The training {does} every {duration(period)}, {found.words}{where(found.places)}{_by(found.places)}.",
        found=found,
        whose=whose,
        severity=severity,
        name=name,
        suspect=suspect,
        detail=detail,
        numbers=(Measurement(name=f"seconds_between_{phase}s", value=round(period, 1), unit="s"),),
    )


def episodes(window: ProcessWindow, phase: str) -> list[float]:
    """When it began, each time, on the rank that was seen in it most often."""
    best: list[float] = []
    for rank in window.ranks:
        begun = []
        before = ""
        for t, seen in rank.trail:
            if seen == phase and before != phase:
                begun.append(t)
            before = seen
        best = max(best, begun, key=len)
    return best


def _by(places: tuple[Place, ...]) -> str:
    """`, by wandb_run.log`: the library's function that took the time."""
    via = next((place.via for place in places if place.via), "")
    return f", by {via}" if via else ""
