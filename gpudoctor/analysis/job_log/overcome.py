"""Whether a program went on after a failure: it was caught, retried, or of a program before the last one."""

import re
from collections.abc import Mapping, Sequence

from gpudoctor.analysis.job_log.consequences import OF_A_DEATH
from gpudoctor.analysis.memo import once
from gpudoctor.model.log_message import Bearing
from gpudoctor.model.signs.job_log import JobLog, LogEvent, LogFile

WENT_ON = 3
"""Steps printed after a failure that show that it was handled: one or two are other ranks' last ones."""
NO_END, _OF_SHELL, _OF_A_QUOTE, _OF_A_WARNING = 150, 25, 5, 2
"""Ordinary lines behind a failure which show that the program went on.

Behind an exception: a program that ends writes at most its buffer of 8 KiB. Behind a line of the shell; behind a line
that quotes an exception; behind a warning.
"""
_ANOTHER_PROGRAM = 25
"""The same before another failure: another program ran in its place."""
_OF_A_RUN = 2
"""Lines or steps that show another run: a bar is printed once more, and ranks of one run fail at once."""
_OF_A_LOOP, _SERVED = 10, 2
"""Times that a line quotes an exception, after which it is of a loop; answers of a server behind an exception."""
TO_END = frozenset({"sigterm", "interrupted"})
"""Kinds of signals after which a program ends itself."""
_BY_SCHEDULER = frozenset({"time-limit", "preemption"})
"""Kinds of ends that only the scheduler brings: what they end after the training was complete is no failure."""
_RECORDED = re.compile(r"JobState=|State: ")
"""How a record of a job says its last state: steps behind it are of a log that was pasted below."""


def overcome(event: LogEvent, told: Sequence[LogEvent], log: JobLog) -> bool:
    """Whether its program went on, or said at its end that all was well; `told` is all that may count."""
    if event.earlier or event.lasting or _RECORDED.match(event.text):
        return event.earlier or (event.lasting and not event.at_end)
    alone = last_death(log) < 0
    if event.succeeded and alone:
        return True
    asked_to_end = event.kind in _BY_SCHEDULER or (event.kind in TO_END and alone)
    if asked_to_end and 0 < done_line(log, event.path) < event.line:
        return True
    return _went_on(event, log) or _of_an_earlier_program(event, told, log)


def _went_on(event: LogEvent, log: JobLog) -> bool:
    """Whether enough stands behind it: the more its program shows that it had caught it, the less is asked."""
    lines = float("inf")
    if event.closing or (event.exception and event.rank is None):
        lines = _OF_SHELL if event.closing else NO_END
    said = event.quoted or event.warned or event.goes_on
    if last_death(log) < event.order or event.progress > 0:
        if said:
            lines = min(lines, _OF_A_WARNING - event.low_behind if event.warned else _OF_A_QUOTE)
        if event.logged and event.low_behind > _OF_A_WARNING:
            return True
        if event.quoted and ((event.rank is None and event.count >= _OF_A_LOOP) or event.goes_on):
            return event.count >= _OF_A_LOOP or not is_last(event, log)
    served = (event.exception or event.closing) and event.served >= _SERVED
    return bool(served) or event.progress >= (1 if said else WENT_ON) or event.followed > lines


def _of_an_earlier_program(event: LogEvent, told: Sequence[LogEvent], log: JobLog) -> bool:
    """Whether its file goes on after it, and fails again at its end: a job script runs programs in turn."""
    if event.rank is not None or not event.fatal:
        return False
    later = [item for item in told if item.path == event.path and item.line > event.last_line]
    later = [item for item in later if item.rank is None and item.fatal]
    if event.of_script and not log.ranks and (log.world or 1) == 1 and last_death(log) < 0:
        # The only process of a job ended: two steps, or another such end behind some lines, are of the next run.
        between = event.followed + event.text.count("\n") - _OF_A_RUN
        if event.progress >= _OF_A_RUN or any(item.of_script and item.followed <= between for item in later):
            return True
    if event.closing and not event.exception:  # the shell went on, and a program that it started failed
        return any(item.exception and not same_failure(item, event) for item in later)
    return bool(event.exception and later and event.followed > _ANOTHER_PROGRAM)


@once
def last_death(log: JobLog) -> int:
    """The order of the last event that shows that some process of the job has failed; -1 without one."""
    deaths = (item for item in log.events if item.bearing is Bearing.CONSEQUENCE and item.kind in OF_A_DEATH)
    return max((item.order for item in deaths if not (item.earlier or item.succeeded)), default=-1)


def same_failure(one: LogEvent, other: LogEvent) -> bool:
    """Whether two events are of one kind."""
    return (one.code, one.kind) == (other.code, other.kind)


@once
def _files(log: JobLog) -> Mapping[str, LogFile]:
    """The files of a log by their paths."""
    return {item.path: item for item in reversed(log.files)}


def done_line(log: JobLog, path: str) -> int:
    """The line at which a file says that the training is complete; 0 without one."""
    file = _files(log).get(path)
    return file.done_line if file is not None else 0


def is_last(event: LogEvent, log: JobLog) -> bool:
    """Whether it is the last line of its file."""
    file = _files(log).get(event.path)
    return event.last_line >= (file.lines if file is not None else 0)
