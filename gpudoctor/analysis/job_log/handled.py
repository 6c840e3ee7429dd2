"""Whether the training went on after a failure: it was caught, retried, or of a program before the last one."""

import re
from collections.abc import Mapping, Sequence

from gpudoctor.analysis.job_log.consequences import OF_A_DEATH
from gpudoctor.analysis.memo import once
from gpudoctor.model.log_message import Bearing
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
_OF_A_RUN = 2
"""Lines or steps that show another run: a bar is printed once more, and ranks of one run fail at once.

The lines may look like more of the message above.
"""
_SERVED = 2
"""Answers of a server behind an exception: one may be of a request that ran beside it."""
BEFORE_THE_PROGRAM = frozenset({"command-line", "unrecognized", "program"})
"""Kinds of failures of a process that began no work: it does not know an option, or cannot open the program."""
NOT_THERE = frozenset({"missing", "not-found"})
"""Kinds of failures of a program that misses a file."""
WHILE_IMPORTING = frozenset({"ModuleNotFoundError", "ImportError", "SyntaxError", "IndentationError", "TabError"})
"""Exceptions of a program that began no work, if nothing is known of it beside them."""
_RECORDED = re.compile(r"JobState=|State: ")
"""How a record of a job says its last state: steps behind it are of a log that was pasted below."""
TO_END = frozenset({"sigterm", "interrupted", "hangup"})
"""Kinds of signals after which a program ends itself."""
_BY_SCHEDULER = frozenset({"time-limit", "preemption"})
"""Kinds of ends that only the scheduler brings: what they end after the training was complete is no failure."""
_SEVERAL = 2
_OF_OTHERS = 12
"""Lines from an exception to the end of a file that other ranks may have written until somebody ended them."""


def was_handled(event: LogEvent, log: JobLog) -> bool:
    """Whether its rank went on training, or the program said at its end that all was well."""
    if event.lasting:
        return event.earlier or not event.at_end
    if _RECORDED.match(event.text):
        return event.earlier
    if (event.exception or event.closing) and event.served >= _SERVED:
        return True
    if event.succeeded and (event.outside or event.bearing is not Bearing.CONSEQUENCE) and last_death(log) < 0:
        return True
    if _was_only_printed(event, log):
        return True
    if 0 < done_line(log, event.path) < event.line and (
        event.kind in _BY_SCHEDULER or (event.kind in TO_END and last_death(log) < 0)
    ):
        return True
    if event.progress >= WENT_ON and not event.earlier and _others_ran_on(event, log):
        return False
    if event.progress >= WENT_ON or event.earlier or (event.closing and event.followed > _ANOTHER_PROGRAM):
        return True
    if event.exception and event.rank is None and event.followed > _NO_END:
        return True
    return log.finished and not event.exception and event.bearing is Bearing.CONSEQUENCE


def overcome_with(event: LogEvent, handled: Sequence[LogEvent], log: JobLog) -> bool:
    """Whether a rank that prints no steps raised what another one survived, and its job went on.

    Often only rank 0 prints steps, and it could not train on without the others.
    """
    if not event.exception or event.rank is None or event.followed <= _NO_END or last_death(log) >= 0:
        return False
    said = event.text.partition("\n")[0]
    return any(
        item.progress >= WENT_ON and same_failure(item, event) and item.text.partition("\n")[0] == said
        for item in handled
    )


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
    if last_death(log) > event.order and not (event.progress > 0 and _raised_later(event, log)):
        return False
    alone = not _others_ran_on(event, log)  # else the lines behind it may be those ranks'
    logged, said = event.logged and alone, event.quoted or event.warned or event.goes_on
    if event.progress > 0 and (said or logged or (event.habitual and alone)):
        return True
    if said and event.followed > (_OF_A_WARNING - event.low_behind if event.warned else _OF_A_QUOTE):
        return True
    if logged and event.low_behind > _OF_A_WARNING:
        return True
    repeated = event.rank is None and event.count >= _OF_A_LOOP
    return bool(event.quoted and (repeated or (event.goes_on and not is_last(event, log))))


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
def last_death(log: JobLog) -> int:
    """The order of the last event that shows that some process of the job has failed; -1 without one."""
    return max(
        (
            item.order
            for item in log.events
            if item.bearing is Bearing.CONSEQUENCE and item.kind in OF_A_DEATH and not (item.earlier or item.succeeded)
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


def done_line(log: JobLog, path: str) -> int:
    """The line at which a file says that the training is complete; 0 without one."""
    file = _files(log).get(path)
    return file.done_line if file is not None else 0


def is_last(event: LogEvent, log: JobLog) -> bool:
    """Whether it is the last line of its file."""
    return event.last_line >= _lines(log, event.path)


def of_an_earlier_program(event: LogEvent, others: Sequence[LogEvent], log: JobLog) -> bool:
    """Whether its file goes on after it, and fails again at its end: a job script runs programs in turn."""
    if event.rank is not None or not event.fatal:
        return False
    later = [
        item
        for item in others
        if item.path == event.path and item.line > event.last_line and item.rank is None and item.fatal
    ]
    # The only process of a job ended: two steps, or another such end behind some lines, are of the next run.
    alone = event.of_script and (log.world or 1) < _SEVERAL and not log.ranks and last_death(log) < 0
    between = event.followed + event.text.count("\n") - _OF_A_RUN
    if alone and (event.progress >= _OF_A_RUN or any(item.of_script and item.followed <= between for item in later)):
        return True
    if event.closing and not event.exception:  # the shell went on, and a program that it started failed
        return any(item.exception and not (same_failure(item, event) or _of_a_file(item)) for item in later)
    if event.exception and any(map(_never_began, later)):
        return True
    causes = [item for item in later if item.bearing is Bearing.CAUSE]
    if _began_no_work(event) and not all(
        same_failure(item, event) or _began_no_work(item) or _of_a_file(item) for item in causes
    ):
        return True
    ran_on = event.exception and event.followed > _ANOTHER_PROGRAM
    return bool(ran_on and (later if event.followed > _A_LONG_WAY else causes))


def kept_by_its_actor(event: LogEvent, others: Sequence[LogEvent], log: JobLog) -> bool:
    """Whether an actor of Ray printed an exception that its driver never saw, and its file goes on."""
    if not event.actor or not event.exception:
        return False
    lines = _lines(log, event.path)
    return lines - event.last_line >= _OF_A_DRIVER and all(
        item.actor and item.bearing is Bearing.CAUSE for item in others if item.path == event.path
    )


def same_failure(one: LogEvent, other: LogEvent) -> bool:
    """Whether two events are of one kind."""
    return (one.code, one.kind) == (other.code, other.kind)


def _never_began(event: LogEvent) -> bool:
    """Whether its process ended before a line of the program ran: what comes later is of another process."""
    return not event.exception and event.kind in BEFORE_THE_PROGRAM


def _began_no_work(event: LogEvent) -> bool:
    """Whether its process ended while it imported: all ranks do so, thus another failure is of a later run."""
    return event.exception in WHILE_IMPORTING


def _of_a_file(event: LogEvent) -> bool:
    """Whether a file was not there: the next program of a script misses what the one before did not write."""
    return event.kind in NOT_THERE
