"""The first cause among what all ranks wrote, and what only followed from it.

A log of a job that died is mostly consequences: the launcher's summary, the watchdogs of the other ranks,
closed connections. The loudest line is seldom the cause. A message that names a cause outranks one that names a
symptom, wherever it is; among equals the first counts. An exception is handled if its rank trains on after it.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum

from gpudoctor.analysis.job_log.consequences import OF_A_GOOD_END, PEER
from gpudoctor.analysis.job_log.event_order import earliest, may_be_together
from gpudoctor.analysis.job_log.handled import (
    TO_END,
    WENT_ON,
    is_last,
    kept_by_its_actor,
    last_death,
    of_an_earlier_program,
    overcome_with,
    was_handled,
)
from gpudoctor.analysis.job_log.said_before import of_absent_ranks, said_before, waited_for_others
from gpudoctor.analysis.memo import once
from gpudoctor.model.log_message import PLAIN, Bearing
from gpudoctor.model.signs.job_log import JobLog, LogEvent

_OF_A_WORKER = "worker-killed"
"""The kind of a loader worker that a signal ended."""
_CANCELLED = "cancelled"
"""The kind of a whole job that somebody cancelled: what its processes raise behind that follows from it."""
_CRASHES = frozenset({"segfault", "abort", "heap", "illegal-instruction", "fpe"})
"""Kinds of crashes in native code."""
_HARD = frozenset({-9, -11, -7, -4, -8, 137, 139, 135, 132, 136})
"""Exit codes of ranks that a signal ended which no waiting rank sends to itself."""
_BY_SRUN = "sigterm"
"""The kind of tasks that srun ends as one has failed."""
_OF_NODE, _OF_STORAGE = "node-failure", "storage"
"""Kinds of a node that failed, and of errors of its files, which may come before its record."""
_GONE, _OF_A_KERNEL = "off-the-bus", "illegal-access"
"""Kinds of a GPU that fell off the bus, and of the errors that programs on it get, and may print before."""
_OF_A_JOB = re.compile(r"python|pt_|torchrun|ray|accelerate|deepspeed|mpirun|orted|julia|train", re.IGNORECASE)
"""Programs of a job, as the kernel names what it kills; a browser may have been killed before."""
_OF_POD = re.compile(r"(?:\S{1,80} {2,80})?(?:pod/)?(\S{1,120}) {2,80}\d{1,3}/\d{1,3} {2,40}[A-Z]")
"""A row of `kubectl get pods`, with a namespace or without."""
_OF_SUMMARY = 4
"""Lines of a launcher's summary from a rank's exit code to its signal."""
_AT_ONCE = 2
"""Ordinary lines between a signal and what a program raises by it, if no rank is named."""
_LONELY = 2
"""Ranks of a job that ends well which may lose a connection while they end."""


class LogRole(Enum):
    """What an event is in the story of the death; the values are those of the JSON report."""

    ROOT = "root"
    SAME = "same"
    """The same cause on another rank, or again."""
    CASCADE = "cascade"
    HANDLED = "handled"
    """The training went on after it."""
    HARMLESS = "harmless"


@dataclass(frozen=True, slots=True)
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
    open_events = [
        item for item in log.events if item.bearing not in (Bearing.HARMLESS, Bearing.HINT) and not item.mentioned
    ]
    passed = {item.order for item in open_events if item.last and not is_last(item, log)}
    open_events = [item for item in open_events if item.order not in passed]
    handled = passed | {
        item.order
        for item in open_events
        if was_handled(item, log)
        or of_an_earlier_program(item, open_events, log)
        or kept_by_its_actor(item, open_events, log)
    }
    survived = [item for item in open_events if item.order in handled]
    handled |= {item.order for item in open_events if overcome_with(item, survived, log)}
    left = [item for item in open_events if item.order not in handled]
    if not left or _only_noise(left, log):
        return None
    hints = [item for item in log.events if item.bearing is Bearing.HINT]
    candidates = [item for item in left if item.fatal and not _ended_by_srun(item, log)]
    root = _best(candidates) or _best([item for item in open_events if _recorded_before(item, left)])
    handled -= {root.order} if root is not None else set()
    if root is not None:
        absent = of_absent_ranks(root, [item for item in open_events if item.order in handled])
        handled -= {item.order for item in absent}
        root = _best(absent) or root
        root = _explaining(hints, root) or root
        root = _killed_first(root, log, left) or root
        went_on = root.exception != "" and (root.warned or root.goes_on)
        unsure = went_on or _beside_other_pods(root, left)
        root = replace(root, doubtful=True) if unsure else root
    said = said_before(root, log, handled, left)
    if said is not None:
        root = replace(said, doubtful=True)
        handled -= {said.order}
    return FirstCause(root=root, roles=tuple((item, _role(item, root, handled)) for item in log.events))


def _ended_by_srun(event: LogEvent, log: JobLog) -> bool:
    """Whether srun says that it ended tasks, and that another one had ended by itself with an error."""
    return (
        event.kind == _BY_SRUN
        and event.text.startswith("srun: ")
        and any(item.launcher == "srun" and (item.code > 0 or item.code in _HARD) for item in log.exits)
    )


def _only_noise(events: Sequence[LogEvent], log: JobLog) -> bool:
    """Whether what is left is what a job prints while it ends well."""
    if any(item.fatal for item in events):
        return log.finished and all(
            (not item.exception or (_of_nccl(item) and last_death(log) < 0)) and item.bearing is not Bearing.CAUSE
            for item in events
        )
    if len({item.rank for item in events if item.exception and item.kind == PEER}) > _LONELY and not log.finished:
        return False
    return all(item.kind in OF_A_GOOD_END for item in events) or log.finished


def _recorded_before(event: LogEvent, consequences: Sequence[LogEvent]) -> bool:
    """Whether a record of a pod or a job stands before the consequences: the steps between are of a log."""
    return (
        event.outside
        and event.fatal
        and not event.earlier
        and all(item.path == event.path and item.order > event.order for item in consequences)
    )


def _of_nccl(event: LogEvent) -> bool:
    """Whether it is a result of NCCL that a watchdog prints, a thread in C++: nothing was raised in Python."""
    return event.exception.startswith("nccl")


def _best(candidates: Sequence[LogEvent]) -> LogEvent | None:
    """The cause that came first; a symptom only where no cause is named."""
    causes = [item for item in candidates if item.bearing is Bearing.CAUSE]
    symptoms = [item for item in candidates if item.bearing is Bearing.SYMPTOM]
    if not causes:
        return earliest(symptoms)
    causes = [item for item in causes if not _of_a_signal(item, symptoms)] or symptoms
    first = earliest(causes)
    assert first is not None
    cancelled = earliest([item for item in symptoms if item.kind == _CANCELLED and _behind_it(item, first)])
    if cancelled is not None and first.exception:
        return cancelled
    killed = earliest([item for item in symptoms if item.kind == _OF_A_WORKER and _right_before(item, first)])
    if killed is not None and first.exception:
        return killed
    if _killed_program(first) is False:
        first = earliest([item for item in causes if _killed_program(item)]) or first
    gone = earliest([item for item in causes if item.kind == _GONE and may_be_together(first, item)])
    if gone is not None and first.kind == _OF_A_KERNEL:
        return gone
    if first.kind == _OF_STORAGE:
        lost = earliest([item for item in causes if item.kind == _OF_NODE and may_be_together(first, item)])
        first = lost or first
    if first.kind == PLAIN:  # an exception of no known kind: another rank may name the cause at the same moment
        named = [
            item for item in causes if item.kind != PLAIN and item.rank != first.rank and may_be_together(first, item)
        ]
        own = {item.rank for item in causes}
        crashed = [item for item in symptoms if _crashed(item) and item.order < first.order]
        crashed = [item for item in crashed if item.rank not in own]
        if crashed:
            return crashed[0]
        earlier = [item for item in symptoms if item.order < first.order and not may_be_together(item, first)]
        if earlier and first.seconds is not None:
            return earliest(earlier)
        return earliest(named) or first
    return first


def _crashed(event: LogEvent) -> bool:
    """Whether a rank crashed in native code, and was not ended by a thread that waited for others."""
    return event.kind in _CRASHES and event.rank is not None and not event.earlier


def _of_a_signal(event: LogEvent, symptoms: Sequence[LogEvent]) -> bool:
    """Whether an exception of no known kind came as its process had said that it got a signal to end."""
    return event.kind == PLAIN and any(
        item.kind in TO_END
        and _right_before(item, event)
        and (item.rank is not None or item.followed - event.followed <= _AT_ONCE)
        for item in symptoms
    )


def _right_before(one: LogEvent, other: LogEvent) -> bool:
    """Whether an event came before another one of the same rank, without a step between them."""
    return one.rank == other.rank and _behind_it(one, other)


def _behind_it(one: LogEvent, other: LogEvent) -> bool:
    """Whether the second of two events of a file came behind the first, without a step between them."""
    return one.path == other.path and one.order < other.order and one.progress < WENT_ON and may_be_together(one, other)


def _killed_program(event: LogEvent) -> bool | None:
    """Whether the kernel killed a program of a job; None for another event, or if the program is not named."""
    values = dict(event.values)
    program = values.get("program") or values.get("task") or ""
    return _OF_A_JOB.match(program) is not None if event.kind == "oom-kernel" and program else None


def _killed_first(root: LogEvent, log: JobLog, left: Sequence[LogEvent]) -> LogEvent | None:
    """The kill of a rank that its launcher saw first, where the root is of ranks that lost it and waited."""
    if root.bearing is not Bearing.SYMPTOM or not waited_for_others(root):
        return None
    reporters = {item.rank for item in left if item.rank is not None}
    lines = {
        (item.path, item.line) for item in log.exits if item.first and item.code in _HARD and item.rank not in reporters
    }
    kills = [item for item in left if item.bearing is Bearing.SYMPTOM and not waited_for_others(item)]
    near = (
        item for item in kills for path, line in lines if path == item.path and 0 <= item.line - line <= _OF_SUMMARY
    )
    return next(near, None)


def _beside_other_pods(root: LogEvent, left: Sequence[LogEvent]) -> bool:
    """Whether it is the row of one pod in a table in which another pod failed in another way."""
    own = _OF_POD.match(root.text)
    rows = ((item, _OF_POD.match(item.text)) for item in left if item.path == root.path)
    return own is not None and any(
        row is not None and row[1] != own[1] and (item.code, item.kind) != (root.code, root.kind) for item, row in rows
    )


def _explaining(hints: Sequence[LogEvent], root: LogEvent) -> LogEvent | None:
    """A warning before the root that explains a failure of its kind."""
    values = [
        item for item in hints if item.order < root.order and item.explains and re.search(item.explains, root.text)
    ]
    return values[-1] if values else None


def _role(event: LogEvent, root: LogEvent | None, handled: set[int]) -> LogRole:
    if root is not None and event.order == root.order:
        return LogRole.ROOT
    if event.bearing in (Bearing.HARMLESS, Bearing.HINT) or event.mentioned:
        return LogRole.HARMLESS
    if event.order in handled:
        return LogRole.HANDLED
    if root is not None and (event.code, event.kind, event.exception) == (root.code, root.kind, root.exception):
        return LogRole.SAME
    return LogRole.CASCADE
