"""The first cause among what all ranks wrote, and what only followed from it.

A log of a job that died is mostly consequences: the launcher's summary, the watchdogs of the other ranks,
closed connections. The loudest line is seldom the cause. A message that names a cause outranks one that names a
symptom, wherever it is; among equals the first counts. An exception is handled if its rank trains on after it.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from gpudoctor.analysis.job_log.consequences import OF_A_DEATH, OF_A_GOOD_END, PEER, UNHEEDED
from gpudoctor.analysis.memo import once
from gpudoctor.model.log_message import PLAIN, Bearing
from gpudoctor.model.signs.job_log import JobLog, LogEvent, LogFile

WENT_ON = 3
"""Steps printed after a failure that show that it was handled: one or two are other ranks' last ones."""
_ANOTHER_PROGRAM = 25
"""Ordinary lines behind a failure that no rank is named for, after which another program ran in its place."""
_A_LONG_WAY = 100
"""The same before a symptom: other ranks print some lines until they are killed."""
_OF_A_DRIVER = 10
"""Lines behind the exception of an actor of Ray within which its driver raises it, too."""
_NO_END = 150
"""The same behind which the file goes on to its end: a program that ends writes at most its buffer of 8 KiB."""
_OF_A_WARNING, _OF_A_QUOTE = 2, 5
"""The same behind a line that quotes an exception, as a warning or without a level: its process goes on."""
_OF_A_LOOP = 10
"""Times that a line quotes an exception, after which it is of a loop: few ranks print no prefix."""
_SERVED = 2
"""Answers of a server behind an exception: one may be of a request that ran beside it."""
_HALF_A_DAY = 43_200.0
"""Seconds: two clocks without a day that differ by more have midnight between them."""
BEFORE_THE_PROGRAM = frozenset({"command-line", "unrecognized", "program"})
"""Kinds of failures of a process that began no work: it does not know an option, or cannot open the program."""
_NOT_THERE = frozenset({"missing", "not-found"})
"""Kinds of failures of a program that misses a file."""
_OF_A_WORKER, _TO_END = "worker-killed", frozenset({"sigterm", "interrupted", "hangup"})
"""Kinds of a loader worker that a signal ended, and of signals after which a program ends itself."""
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
_WHILE_IMPORTING = frozenset(
    {"ModuleNotFoundError", "ImportError", "SyntaxError", "IndentationError", "TabError"}
)
_OF_A_JOB = re.compile(r"python|pt_|torchrun|ray|accelerate|deepspeed|mpirun|orted|julia|train", re.IGNORECASE)
"""Programs of a job, as the kernel names what it kills; a browser may have been killed before."""
_RECORDED = re.compile(r"JobState=|State: ")
"""How a record of a job says its last state: steps behind it are of a log that was pasted below."""
_OF_POD = re.compile(r"(?:\S{1,80} {2,80})?(?:pod/)?(\S{1,120}) {2,80}\d{1,3}/\d{1,3} {2,40}[A-Z]")
"""A row of `kubectl get pods`, with a namespace or without."""
_OF_SUMMARY = 4
"""Lines of a launcher's summary from a rank's exit code to its signal."""
_SEVERAL = 2
_OF_OTHERS = 12
"""Lines from an exception to the end of a file that other ranks may have written until somebody ended them."""
_LONELY = 2
"""Ranks of a job that ends well which may lose a connection while they end."""
_SOON = 10
"""Ordinary lines between a failure that the program caught, and its death of no known kind."""
_OF_OTHER_RANKS = frozenset(
    {"unreachable", "rendezvous-timeout", "store-barrier", "heartbeat", "stalled", "ib-peer", "socket", "ib"}
    | {"system-error", "warned", "mpi-unreachable"}
)
"""Kinds of symptoms between ranks, beside those of a rank that waited."""
_OPTIONAL = frozenset(
    {"cannot-import", "missing-package", "no-module", "required", "requires", "removed-attribute", "operator"}
    | {"unknown-model", "401", "403", "404", "rate-limit", "offline", "tracker", "permission"}
    | {"parse", "encoding", "empty", "image"}
)
"""Kinds of what a program often does without: a package, the hub, a tracker, a row of the data."""
_GAVE_UP = re.compile(
    r"^\[?(?:ERROR|FATAL|CRITICAL|error|fatal)\b|(?i:\b(?:abort|g[ai]v\w{1,3} up|stopp(?:ed|ing)|leaving)\b)"
)
"""Words of a program that ends by what failed."""
_OFTEN_SAID = 3
_WORDS, _STEM = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])"), 5
"""Words within names, and the letters by which two are alike."""
_OF_ALL_ERRORS = frozenset(
    {"error", "excep", "runti", "value", "index", "tenso", "devic", "objec", "modul", "train", "model", "batch"}
    | {
        "attri",
        "faile",
        "expec",
        "argum",
        "messa",
        "torch",
        "found",
        "input",
        "state",
        "loadi",
        "loade",
        "which",
    }
)
_WRITES = re.compile(r"(?i)writ|sav(?:e|ing)|checkpoint|ckpt|snapshot|flush|upload|persist")
"""Words of a death while something is written."""
_SAME_MOMENT = 90.0
"""Seconds within which the ranks of a job die of one cause: their lines are in the order of their buffers."""


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
        item
        for item in log.events
        if item.bearing not in (Bearing.HARMLESS, Bearing.HINT) and not item.mentioned
    ]
    passed = {item.order for item in open_events if item.last and not _is_last(item, log)}
    open_events = [item for item in open_events if item.order not in passed]
    last_lines = _last_lines(open_events)
    handled = passed | {
        item.order
        for item in open_events
        if _was_handled(item, log)
        or _of_an_earlier_program(item, open_events, last_lines)
        or _kept_by_its_actor(item, open_events, log)
    }
    left = [item for item in open_events if item.order not in handled]
    if not left or _only_noise(left, log):
        return None
    hints = [item for item in log.events if item.bearing is Bearing.HINT]
    candidates = [item for item in left if item.fatal and not _ended_by_srun(item, log)]
    root = _best(candidates) or _best([item for item in open_events if _recorded_before(item, left)])
    handled -= {root.order} if root is not None else set()
    if root is not None:
        absent = _of_absent_ranks(root, [item for item in open_events if item.order in handled])
        handled -= {item.order for item in absent}
        root = _best(absent) or root
        root = _explaining(hints, root) or root
        root = _killed_first(root, log, left) or root
        root = replace(root, doubtful=True) if _beside_other_pods(root, left) else root
    said = _said_before(root, log, handled, left)
    if said is not None:
        root = replace(said, doubtful=True)
        handled -= {said.order}
    return FirstCause(root=root, roles=tuple((item, _role(item, root, handled)) for item in log.events))


def _was_handled(event: LogEvent, log: JobLog) -> bool:
    """Whether its rank went on training, or the program said at its end that all was well."""
    if event.lasting:
        return event.earlier or not event.at_end
    if _RECORDED.match(event.text):
        return event.earlier
    if (event.exception or event.closing) and event.served >= _SERVED:
        return True
    if event.bearing is not Bearing.CONSEQUENCE and event.succeeded and _last_death(log) < 0:
        return True
    if _was_only_printed(event, log):
        return True
    if event.kind in _TO_END and 0 < _done_line(log, event.path) < event.line and _last_death(log) < 0:
        return True
    if event.progress >= WENT_ON and not event.earlier and _others_ran_on(event, log):
        return False
    if event.progress >= WENT_ON or event.earlier or (event.closing and event.followed > _ANOTHER_PROGRAM):
        return True
    if event.exception and event.rank is None and event.followed > _NO_END:
        return True
    return log.finished and not event.exception and event.bearing is Bearing.CONSEQUENCE


def _others_ran_on(event: LogEvent, log: JobLog) -> bool:
    """Whether the few steps behind an exception, at the end of a file, may be those of ranks that go on."""
    if event.rank is not None or not event.exception or (log.world or 1) < _SEVERAL:
        return False
    file = _files(log).get(event.path)
    return (
        file is not None
        and file.ends_in_progress
        and event.progress <= 2 * WENT_ON
        and file.lines - event.last_line <= _OF_OTHERS
    )


def _was_only_printed(event: LogEvent, log: JobLog) -> bool:
    """Whether the program caught an exception and printed it in a message of its own, and went on."""
    if (
        event.habitual
        and (event.progress > 0 or event.quoted or event.warned)
        and not _others_ran_on(event, log)
        and _last_death(log) < 0
    ):
        return True
    logged = event.logged and not _others_ran_on(event, log)  # the lines behind it may be those ranks'
    if not (event.quoted or event.warned or logged or event.restated or event.goes_on):
        return False
    if _last_death(log) > event.order and not (event.progress > 0 and _raised_later(event, log)):
        return False
    if event.quoted and event.goes_on and not _is_last(event, log):
        return True
    if event.quoted and event.rank is None and event.count >= _OF_A_LOOP:
        return True
    if event.progress > 0 and (event.quoted or event.warned or logged or event.goes_on):
        return True
    if event.warned and event.followed + event.logged_behind > _OF_A_WARNING:
        return True
    if (event.quoted or event.goes_on) and event.followed > _OF_A_QUOTE:
        return True
    if logged and event.logged_behind > _OF_A_WARNING:
        return True
    return event.restated and event.rank is None and event.followed > _ANOTHER_PROGRAM


def _raised_later(event: LogEvent, log: JobLog) -> bool:
    """Whether its file has another exception behind it that nobody caught, of which the death may be."""
    return any(
        item.exception
        and item.bearing is Bearing.CAUSE
        and item.path == event.path
        and item.order > event.order
        and not (item.quoted or item.warned or item.logged or item.goes_on)
        for item in log.events
    )


@once
def _last_death(log: JobLog) -> int:
    """The order of the last event that shows that some process of the job has failed; -1 without one."""
    return max(
        (
            item.order
            for item in log.events
            if item.bearing is Bearing.CONSEQUENCE
            and item.kind in OF_A_DEATH
            and not (item.earlier or item.succeeded)
        ),
        default=-1,
    )


@once
def _files(log: JobLog) -> Mapping[str, LogFile]:
    """The files of a log by their paths."""
    return {item.path: item for item in reversed(log.files)}


def _lines(log: JobLog, path: str) -> int:
    """How many lines a file has."""
    file = _files(log).get(path)
    return file.lines if file is not None else 0


def _done_line(log: JobLog, path: str) -> int:
    """The line at which a file says that the training is complete; 0 without one."""
    file = _files(log).get(path)
    return file.done_line if file is not None else 0


def _is_last(event: LogEvent, log: JobLog) -> bool:
    """Whether it is the last line of its file."""
    return event.last_line >= _lines(log, event.path)


@dataclass(slots=True)
class _LastLines:
    """Of the fatal events of a file that no rank is named for: the lines of the last ones."""

    any: int = 0
    cause: int = 0
    never_began: int = 0


def _last_lines(events: Sequence[LogEvent]) -> Mapping[str, _LastLines]:
    """These of each file."""
    found: dict[str, _LastLines] = {}
    for item in events:
        if item.rank is None and item.fatal:
            last = found.setdefault(item.path, _LastLines())
            last.any = max(last.any, item.line)
            if item.bearing is Bearing.CAUSE:
                last.cause = max(last.cause, item.line)
            if _never_began(item):
                last.never_began = max(last.never_began, item.line)
    return found


def _ended_by_srun(event: LogEvent, log: JobLog) -> bool:
    """Whether srun says that it ended tasks, and that another one had ended by itself with an error."""
    return (
        event.kind == _BY_SRUN
        and event.text.startswith("srun: ")
        and any(item.launcher == "srun" and (item.code > 0 or item.code in _HARD) for item in log.exits)
    )


def _of_an_earlier_program(
    event: LogEvent, others: Sequence[LogEvent], last_lines: Mapping[str, _LastLines]
) -> bool:
    """Whether its file goes on after it, and fails again at its end: a job script runs programs in turn."""
    if event.rank is not None or not event.fatal:
        return False
    last = last_lines[event.path]
    later = (
        item
        for item in others
        if item.path == event.path and item.line > event.last_line and item.rank is None and item.fatal
    )
    if event.closing and not event.exception:  # the shell went on, and a program that it started failed
        return any(item.exception and not (_same(item, event) or _of_a_file(item)) for item in later)
    if event.exception and last.never_began > event.last_line:
        return True
    if _began_no_work(event) and any(
        item.bearing is Bearing.CAUSE and not (_same(item, event) or _began_no_work(item) or _of_a_file(item))
        for item in later
    ):
        return True
    if not event.exception or event.followed <= _ANOTHER_PROGRAM:
        return False
    return event.last_line < (last.any if event.followed > _A_LONG_WAY else last.cause)


def _kept_by_its_actor(event: LogEvent, others: Sequence[LogEvent], log: JobLog) -> bool:
    """Whether an actor of Ray printed an exception that its driver never saw, and its file goes on."""
    if not event.actor or not event.exception:
        return False
    lines = _lines(log, event.path)
    return lines - event.last_line >= _OF_A_DRIVER and all(
        item.actor and item.bearing is Bearing.CAUSE for item in others if item.path == event.path
    )


def _same(one: LogEvent, other: LogEvent) -> bool:
    return (one.code, one.kind) == (other.code, other.kind)


def _never_began(event: LogEvent) -> bool:
    """Whether its process ended before a line of the program ran: what comes later is of another process."""
    return not event.exception and event.kind in BEFORE_THE_PROGRAM


def _began_no_work(event: LogEvent) -> bool:
    """Whether its process ended while it imported: all ranks do so, thus another failure is of a later run."""
    return event.exception in _WHILE_IMPORTING


def _of_a_file(event: LogEvent) -> bool:
    """Whether a file was not there: the next program of a script misses what the one before did not write."""
    return event.kind in _NOT_THERE


def _only_noise(events: Sequence[LogEvent], log: JobLog) -> bool:
    """Whether what is left is what a job prints while it ends well."""
    if any(item.fatal for item in events):
        return log.finished and all(
            (not item.exception or (_of_nccl(item) and _last_death(log) < 0))
            and item.bearing is not Bearing.CAUSE
            for item in events
        )
    if (
        len({item.rank for item in events if item.exception and item.kind == PEER}) > _LONELY
        and not log.finished
    ):
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
        return _first(symptoms)
    causes = [item for item in causes if not _of_a_signal(item, symptoms)] or symptoms
    first = _first(causes)
    assert first is not None
    killed = _first([item for item in symptoms if item.kind == _OF_A_WORKER and _right_before(item, first)])
    if killed is not None and first.exception:
        return killed
    if _killed_program(first) is False:
        first = _first([item for item in causes if _killed_program(item)]) or first
    gone = _first([item for item in causes if item.kind == _GONE and _together(first, item)])
    if gone is not None and first.kind == _OF_A_KERNEL:
        return gone
    if first.kind == _OF_STORAGE:
        lost = _first([item for item in causes if item.kind == _OF_NODE and _together(first, item)])
        first = lost or first
    if first.kind == PLAIN:  # an exception of no known kind: another rank may name the cause at the same moment
        named = [
            item for item in causes if item.kind != PLAIN and item.rank != first.rank and _together(first, item)
        ]
        own = {item.rank for item in causes}
        crashed = [item for item in symptoms if _crashed(item) and item.order < first.order]
        crashed = [item for item in crashed if item.rank not in own]
        if crashed:
            return crashed[0]
        earlier = [item for item in symptoms if item.order < first.order and not _together(item, first)]
        if earlier and first.seconds is not None:
            return _first(earlier)
        return _first(named) or first
    return first


def _crashed(event: LogEvent) -> bool:
    """Whether a rank crashed in native code, and was not ended by a thread that waited for others."""
    return event.kind in _CRASHES and event.rank is not None and not event.earlier


def _of_a_signal(event: LogEvent, symptoms: Sequence[LogEvent]) -> bool:
    """Whether an exception of no known kind came as its process had said that it got a signal to end."""
    return event.kind == PLAIN and any(
        item.kind in _TO_END and item.rank is not None and _right_before(item, event) for item in symptoms
    )


def _right_before(one: LogEvent, other: LogEvent) -> bool:
    """Whether an event came before another one of the same rank, without a step between them."""
    return (
        (one.path, one.rank) == (other.path, other.rank)
        and one.order < other.order
        and one.progress < WENT_ON
        and _together(one, other)
    )


def _killed_program(event: LogEvent) -> bool | None:
    """Whether the kernel killed a program of a job; None for another event, or if the program is not named."""
    values = dict(event.values)
    program = values.get("program") or values.get("task") or ""
    return _OF_A_JOB.match(program) is not None if event.kind == "oom-kernel" and program else None


def _of_absent_ranks(root: LogEvent, handled: Sequence[LogEvent]) -> list[LogEvent]:
    """The exceptions for which ranks did not come to where others waited, though their programs went on.

    Only if no more of these were printed before than ranks are missing.
    """
    values = dict(root.values)
    joined, expected = values.get("joined", ""), values.get("expected", "")
    if not (joined.isdigit() and expected.isdigit()):
        return []
    raised = [
        item
        for item in handled
        if item.exception
        and item.bearing is Bearing.CAUSE
        and (item.path, item.rank) == (root.path, root.rank)
        and item.last_line < root.line
        and item.progress < WENT_ON
        and not item.earlier
    ]
    missing = int(expected) - int(joined)
    return raised if sum(item.count for item in raised) <= missing else []


def _said_before(
    root: LogEvent | None, log: JobLog, handled: set[int], left: Sequence[LogEvent]
) -> LogEvent | None:
    """What the program mentioned, or caught and printed, before a death that nothing else explains.

    A rank that did not come may have said why. A plain exception is explained by words of its own rank alone.
    """
    death = root or _first([item for item in left if item.kind != UNHEEDED])
    if death is None or (death.bearing is Bearing.SYMPTOM and not _waited(death)):
        return None
    found = [
        item for item in log.events if item.mentioned or (item.order in handled and _was_said(item, death))
    ]
    found = [
        item
        for item in found
        if (item.order < death.order or (_waited(death) and item.path != death.path))
        and (_waited(death) or _together(item, death))
        and not _may_lack(item)
    ]
    if root is not None and root.kind == PLAIN:
        own = [
            item
            for item in found
            if item.path == root.path and (None in (item.rank, root.rank) or item.rank == root.rank)
        ]
        times = Counter((item.code, item.kind) for item in own for _ in range(item.count) if not item.progress)
        own = [item for item in own if _explains(item, root, times[item.code, item.kind])]
        return next((item for item in own if _same(item, own[-1])), None)
    reporters = {item.rank for item in left if item.rank is not None}
    found = [item for item in found if not item.progress and item.rank not in reporters]
    found = [item for item in found if item.rank is not None or _GAVE_UP.search(item.text)]
    if root is not None and root.bearing is Bearing.CAUSE:
        values = dict(root.values)
        joined, expected = values.get("joined", ""), values.get("expected", "")
        if not (joined.isdigit() and expected.isdigit()):
            return None
        found = found if len({item.rank for item in found}) <= int(expected) - int(joined) else []
    return _first(found)


def _explains(said: LogEvent, death: LogEvent, times: int) -> bool:
    """Whether what a program said explains the plain exception behind it, and was not merely overcome.

    It gave up, or the same came again and again, or both speak of the same thing.
    """
    words = _words_of(death)
    if said.progress:
        return _WRITES.search(words) is not None
    if _GAVE_UP.search(said.text) and not said.goes_on:
        return True
    return times >= _OFTEN_SAID or not _stems(f"{said.before} {said.text}").isdisjoint(_stems(words))


def _stems(text: str) -> set[str]:
    """The beginnings of the longer words of a text; words of all errors are left out."""
    found = {word[:_STEM].lower() for word in _WORDS.findall(text) if len(word) >= _STEM}
    return found - _OF_ALL_ERRORS


def _killed_first(root: LogEvent, log: JobLog, left: Sequence[LogEvent]) -> LogEvent | None:
    """The kill of a rank that its launcher saw first, where the root is of ranks that lost it and waited."""
    if root.bearing is not Bearing.SYMPTOM or not _waited(root):
        return None
    reporters = {item.rank for item in left if item.rank is not None}
    lines = {
        (item.path, item.line)
        for item in log.exits
        if item.first and item.code in _HARD and item.rank not in reporters
    }
    kills = [item for item in left if item.bearing is Bearing.SYMPTOM and not _waited(item)]
    near = (
        item
        for item in kills
        for path, line in lines
        if path == item.path and 0 <= item.line - line <= _OF_SUMMARY
    )
    return next(near, None)


def _beside_other_pods(root: LogEvent, left: Sequence[LogEvent]) -> bool:
    """Whether it is the row of one pod in a table in which another pod failed in another way."""
    own = _OF_POD.match(root.text)
    rows = ((item, _OF_POD.match(item.text)) for item in left if item.path == root.path)
    return own is not None and any(
        row is not None and row[1] != own[1] and (item.code, item.kind) != (root.code, root.kind)
        for item, row in rows
    )


def _waited(event: LogEvent) -> bool:
    """Whether a rank that prints it may have lost, or waited for, one that failed by itself."""
    return event.waits or event.kind in _OF_OTHER_RANKS


def _was_said(event: LogEvent, death: LogEvent) -> bool:
    """Whether the program caught a known failure and printed it, and died some lines later without a step."""
    return (
        event.bearing is Bearing.CAUSE
        and event.kind != PLAIN
        and (event.quoted or event.warned or event.logged or event.goes_on)
        and not (event.earlier or event.progress or event.succeeded)
        and event.path == death.path
        and (event.rank == death.rank or _waited(death))
        and event.followed - death.followed <= _SOON
    )


def _may_lack(event: LogEvent) -> bool:
    """Whether a program often goes on without what failed."""
    return event.kind in _OPTIONAL or event.exception in _WHILE_IMPORTING or event.kind in _NOT_THERE


def _words_of(event: LogEvent) -> str:
    frame = event.frame
    return f"{event.text} {frame.function} {frame.text}" if frame is not None else event.text


def _first(events: Sequence[LogEvent]) -> LogEvent | None:
    """The earliest: by time where both have one and it differs clearly, else as they stand."""
    best: LogEvent | None = None
    for item in events:
        if best is None or _before(item, best):
            best = item
    return best


def _before(one: LogEvent, other: LogEvent) -> bool:
    if one.seconds is not None and other.seconds is not None and one.path == other.path:
        return one.seconds < other.seconds - 1e-6 and abs(one.seconds - other.seconds) < _HALF_A_DAY
    return one.order < other.order


def _together(one: LogEvent, other: LogEvent) -> bool:
    """Whether two events may be of the same moment."""
    if one.seconds is not None and other.seconds is not None:
        return abs(one.seconds - other.seconds) <= _SAME_MOMENT
    return True


def _explaining(hints: Sequence[LogEvent], root: LogEvent) -> LogEvent | None:
    """A warning before the root that explains a failure of its kind."""
    values = [
        item
        for item in hints
        if item.order < root.order and item.explains and re.search(item.explains, root.text)
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
