"""The first cause among what all ranks wrote, and what only followed from it.

A log of a job that died is mostly consequences: the launcher's summary, the watchdogs of the other ranks,
closed connections. The loudest line is seldom the cause. First, what the program went on after is left out
(`overcome.py`). Of the rest a cause outranks a symptom, wherever it is; among equals the first counts, unless
another one explains it. Where nothing explains the death, what a rank said before it may.
"""

import re
from collections.abc import Sequence
from enum import Enum

from gpudoctor.analysis.job_log.consequences import OF_A_GOOD_END, PEER, UNHEEDED
from gpudoctor.analysis.job_log.overcome import TO_END, is_last, last_death, overcome, same_failure
from gpudoctor.analysis.memo import once
from gpudoctor.model.log_message import PLAIN, Bearing
from gpudoctor.model.records import frozen, replace
from gpudoctor.model.signs.job_log import JobLog, LogEvent

_HALF_A_DAY = 43_200.0
"""Seconds: two clocks without a day that differ by more have midnight between."""
_CRASHES = frozenset({"segfault", "abort", "illegal-instruction"})
HARD = frozenset({-9, -11, -7, -4, -8, 137, 139, 135, 132, 136})
"""Exit codes of ranks that a signal ended which no waiting rank sends to itself."""
_OF_SUMMARY = 4
"""Lines of a launcher's summary from a rank's exit code to its signal."""
_OF_A_JOB = re.compile(r"python|pt_|torchrun|ray|accelerate|deepspeed|mpirun|orted|julia|train", re.IGNORECASE)
"""Programs of a job, as the kernel names what it kills; a browser may have been killed before."""
_LONELY = 2
"""Ranks of a job that ends well which may lose a connection while they end."""
_WAITING = frozenset(
    {"unreachable", "rendezvous-timeout", "stalled", "ib-peer", "socket", "ib", "system-error", "warned"}
)
"""Kinds of symptoms between ranks, beside those of a rank that waited."""
_OFTEN_SAID = 3
"""Times that a program said the same before its death."""
_GAVE_UP = re.compile(
    r"^\[?(?:ERROR|FATAL|CRITICAL|error|fatal)\b|(?i:\b(?:abort|g[ai]v\w{1,3} up|stopp(?:ed|ing)|leaving)\b)"
)
"""Words of a program that ends by what failed."""


class LogRole(Enum):
    """What an event is in the story of the death; the values are those of the JSON report."""

    ROOT = "root"
    SAME = "same"
    """The same cause on another rank, or again."""
    CASCADE = "cascade"
    HANDLED = "handled"
    """The training went on after it."""
    HARMLESS = "harmless"


@frozen(kw_only=False)
class FirstCause:
    """The verdict on a log."""

    root: LogEvent | None
    """None where the log shows only consequences."""
    roles: tuple[tuple[LogEvent, LogRole], ...]
    """Every event, in order."""

    def of(self, role: LogRole) -> tuple[LogEvent, ...]:
        """The events of a role."""
        return tuple(event for event, each in self.roles if each is role)

    @property
    def ranks(self) -> tuple[int, ...]:
        """The ranks that died of the root itself."""
        same = [self.root, *self.of(LogRole.SAME)]
        return tuple(sorted({item.rank for item in same if item is not None and item.rank is not None}))


@once
def first_cause(log: JobLog) -> FirstCause | None:
    """The first cause; None for a log in which nothing died."""
    told = [item for item in log.events if not (_means_nothing(item) or (item.last and not is_last(item, log)))]
    gone = {item.order for item in told if overcome(item, told, log)}
    left = [item for item in told if item.order not in gone]
    if not left or _ended_well(left, log):
        return None
    by_itself = any(item.launcher == "srun" and (item.code > 0 or item.code in HARD) for item in log.exits)
    ended = {item.order for item in left if by_itself and item.kind == "sigterm" and item.text.startswith("srun: ")}
    root = _first([item for item in left if item.fatal and item.order not in ended])
    if root is None:  # a record of a scheduler above a log that was pasted below it
        records = [item for item in told if item.outside and item.fatal and not item.earlier]
        root = _first([item for item in records if all(item.order < other.order for other in left)])
    root = _killed_first(root, log, left) or root
    said = _said_before(root, log, left)
    if said is not None:
        root = replace(said, doubtful=True)
    elif root is not None:
        explain = (item for item in log.events if item.bearing is Bearing.HINT and item.order < root.order)
        hints = [item for item in explain if item.explains and re.search(item.explains, root.text)]
        root = hints[-1] if hints else root
        root = replace(root, doubtful=True) if root.exception and (root.warned or root.goes_on) else root
    dead = {item.order for item in left}
    return FirstCause(root=root, roles=tuple((item, _role(item, root, dead)) for item in log.events))


def _means_nothing(event: LogEvent) -> bool:
    return event.bearing in (Bearing.HARMLESS, Bearing.HINT) or event.mentioned


def _role(event: LogEvent, root: LogEvent | None, dead: set[int]) -> LogRole:
    if root is not None and event.order == root.order:
        return LogRole.ROOT
    if _means_nothing(event):
        return LogRole.HARMLESS
    if event.order not in dead:
        return LogRole.HANDLED
    if root is not None and (event.code, event.kind, event.exception) == (root.code, root.kind, root.exception):
        return LogRole.SAME
    return LogRole.CASCADE


def _killed_first(root: LogEvent | None, log: JobLog, left: Sequence[LogEvent]) -> LogEvent | None:
    """The kill of a rank that its launcher saw first, where the root is of ranks that lost it and waited."""
    if root is None or root.bearing is Bearing.CAUSE or not waited_for_others(root):
        return None
    reporters = {item.rank for item in left if item.rank is not None}
    ends = [item.line for item in log.exits if item.first and item.code in HARD and item.rank not in reporters]
    kills = (item for item in left if item.bearing is Bearing.SYMPTOM and not waited_for_others(item))
    return next((item for item in kills for line in ends if 0 <= item.line - line <= _OF_SUMMARY), None)


def _ended_well(events: Sequence[LogEvent], log: JobLog) -> bool:
    """Whether what is left is what a job prints while it ends well."""
    if any(item.fatal for item in events):
        if not log.finished or any(item.bearing is Bearing.CAUSE for item in events):
            return False
        # a watchdog of NCCL is a thread in C++: what it prints was not raised in Python
        of_threads = last_death(log) < 0
        return all(not item.exception or (of_threads and item.exception.startswith("nccl")) for item in events)
    if log.finished:
        return True
    lost = {item.rank for item in events if item.exception and item.kind == PEER}
    uncaught = any(item.of_script for item in events)
    return len(lost) <= _LONELY and not uncaught and all(item.kind in OF_A_GOOD_END for item in events)


# Which of the rest came first


def earliest(events: Sequence[LogEvent]) -> LogEvent | None:
    """The earliest: by time where both have one and it differs clearly, else as they stand."""
    best: LogEvent | None = None
    for item in events:
        if best is None:
            best = item
        elif item.seconds is None or best.seconds is None:
            best = item if item.order < best.order else best
        elif item.path == best.path and 1e-6 < best.seconds - item.seconds < _HALF_A_DAY:
            best = item
    return best


def _first(events: Sequence[LogEvent]) -> LogEvent | None:
    """The cause that came first, or what explains it; a symptom only where no cause is named."""
    symptoms = [item for item in events if item.bearing is Bearing.SYMPTOM]
    causes = [item for item in events if item.bearing is Bearing.CAUSE]
    programs = ((item, dict(item.values).get("program", "")) for item in causes)  # a kill of none of the job's
    causes = [item for item, own in programs if item.kind != "oom-kernel" or not own or _OF_A_JOB.match(own)] or causes
    first = earliest([item for item in causes if not _by_signal(item, symptoms)] or symptoms)
    if first is None or not causes:
        return first
    before = [item for item in events if _before(item, first)]
    explained = (
        (first.exception != "", [item for item in before if item.kind == "cancelled"]),
        (first.exception != "", [item for item in before if item.kind == "worker-killed" and item.rank == first.rank]),
        (first.kind == "illegal-access", [item for item in events if item.kind == "off-the-bus"]),
        (first.kind == "storage", [item for item in events if item.kind == "node-failure"]),
        (
            first.kind == PLAIN,
            [item for item in before if item.kind in _CRASHES and item.rank not in (None, first.rank)],
        ),
    )
    return next((earliest(found) for applies, found in explained if applies and found), first)


def _before(one: LogEvent, other: LogEvent) -> bool:
    return one.path == other.path and one.order < other.order


def _by_signal(event: LogEvent, symptoms: Sequence[LogEvent]) -> bool:
    """Whether an exception of no known kind came as its process had said that it got a signal to end."""
    signals = (item for item in symptoms if item.kind in TO_END and item.rank == event.rank)
    return event.kind == PLAIN and any(_before(item, event) for item in signals)


# What a program said before a death that nothing else explains


def waited_for_others(event: LogEvent) -> bool:
    """Whether a rank that prints it may have lost, or waited for, one that failed by itself."""
    return event.waits or event.kind in _WAITING


def _said_before(root: LogEvent | None, log: JobLog, left: Sequence[LogEvent]) -> LogEvent | None:
    """What the program mentioned, or caught and printed, before a death that nothing else explains.

    A rank that did not come may have said why. A plain exception is explained by words of its own rank alone.
    """
    death = root or earliest([item for item in left if item.kind != UNHEEDED])
    plain = root is not None and root.kind == PLAIN
    if death is None or not (plain or root is None or waited_for_others(root)):
        return None
    found = [item for item in log.events if item.mentioned]
    found = [item for item in found if item.order < death.order or (not plain and item.path != death.path)]
    if plain:
        own = [item for item in found if item.path == death.path and item.rank in (None, death.rank)]
        often = {item.kind for item in own if sum(same_failure(item, other) for other in own) >= _OFTEN_SAID}
        return next((item for item in own if item.kind in often or _GAVE_UP.search(item.text)), None)
    reporters = {item.rank for item in left if item.rank is not None}
    found = [item for item in found if item.rank not in reporters]
    return earliest([item for item in found if item.rank is not None or _GAVE_UP.search(item.text)])
