"""Events of a job's log from kernel logs beside it: whom the out-of-memory killer took, what the driver met.

A kernel log is of a whole machine and of days. Only what belongs to this death counts: by the job that a
control group names, by a process, or by the time. What belongs to another is kept as an event of before.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from gpudoctor.model.log_message import Bearing, LogMessage
from gpudoctor.model.signs.job_log import JobLog, LogEvent
from gpudoctor.text import size
from gpudoctor.vitals.job_log.events import event_of
from gpudoctor.vitals.job_log.lines import blocks, open_log, text_of
from gpudoctor.vitals.job_log.moments import moment, same_death
from gpudoctor.vitals.job_log.wordings import Match, Messages, Shape, bare, messages_table
from gpudoctor.vitals.kernel_lines import KernelLine, parse

_CHOSEN = re.compile(r"oom-kill:constraint=.{0,400}?task_memcg=([^,]+),task=[^,]*,pid=(\d+)")
_ANNOUNCED = re.compile(r"invoked oom-killer|\b[Kk]ill process \d+ \(")
"""Before Linux 5.2 the kernel first prints whom it chose, and then whom it killed: that may be a child."""
_KILLED = re.compile(r"Killed process (\d+)(?:, UID \d+,)? \(([^)]*)\)")
_REAPED = re.compile(r"oom_reaper: reaped process (\d+) ")
_RESIDENT = re.compile(r"(?:anon|file|shmem)-rss:(\d+)kB")
_CGROUP_JOB = re.compile(r"/job_?(\d+)\b")
_NAMED_JOB = re.compile(r"(?i)(?:slurm|job)[-_.]?(?:id[-_.]?)?(\d+)")
_TEXT_JOB = re.compile(r"\b(?:StepId=|JOB |STEP )(\d+)")
_TEXT_PID = re.compile(r"\bpid[:= ]+(\d+)")
_BY_KERNEL = "oom-kernel"
_MOST = 2_000
"""Messages of one kernel log that are kept, the last ones."""
_NAMES = frozenset({"pid", "bus", "program", "device", "cgroup"})
"""Parts of a message that name a process or a device."""
_LONGEST_LINE = 4096
_DAY = 86_400.0
"""Seconds: what a kernel log without a job tells of a day before its last failure may be of another job."""


def with_kernel_logs(log: JobLog, paths: Sequence[str], messages: Iterable[tuple[str, LogMessage]]) -> JobLog:
    """The log, whose files these kernel logs are among, with their messages by what they belong to."""
    if not paths:
        return log
    table = messages_table(tuple(messages))
    kernel = [event for path in paths for event in _events(path, table)]
    claimed = {(event.path, event.line) for event in kernel}
    killing = {event.path for event in kernel if event.kind == _BY_KERNEL}
    rest = [
        event
        for event in log.events
        # What else is said of a kill repeats the kernel's own words.
        if (event.path, event.line) not in claimed and not (event.kind == _BY_KERNEL and event.path in killing)
    ]
    alone = all(item.path in paths for item in log.files)
    told = [(item.text, item.rank) for item in rest] + [(item.text, item.rank) for item in log.last_words]
    named = {pid: rank for text, rank in told for pid in _TEXT_PID.findall(text)}
    before: list[LogEvent] = []
    behind: list[LogEvent] = []
    for event in kernel:
        ours = not event.earlier if alone else _belongs(event, log, rest, paths)
        event = replace(event, rank=named.get(dict(event.values).get("pid", ""), event.rank))
        if ours is True and event.bearing is Bearing.CAUSE:
            before.append(event)
        else:
            behind.append(event if ours is not False else replace(event, earlier=True))
    together = (*before, *rest, *behind)
    return replace(log, events=tuple(replace(item, order=number) for number, item in enumerate(together)))


def _belongs(event: LogEvent, log: JobLog, events: Sequence[LogEvent], kernel: Sequence[str]) -> bool | None:
    """Whether a message of the kernel belongs to the death that a log tells of; None where nothing says so."""
    own = [item for item in log.files if item.path not in kernel]
    fatal = [item for item in events if item.fatal and item.path not in kernel]
    names = [item.path.replace("\\", "/").rpartition("/")[2] for item in own]
    jobs = {found for name in names for found in _NAMED_JOB.findall(name)}
    jobs |= {found for item in events for found in _TEXT_JOB.findall(item.text)}
    values = dict(event.values)
    job = _CGROUP_JOB.search(values.get("cgroup", ""))
    if job and jobs:
        return job[1] in jobs
    if values.get("pid") in {found for item in fatal for found in _TEXT_PID.findall(item.text)}:
        return True
    if not fatal and (log.finished or not any(item.ends_in_progress for item in own)):
        return False
    at, moments = moment(event.stamp), [found for item in fatal if (found := moment(item.stamp)) is not None]
    return None if at is None or not moments else any(same_death(at, each) for each in moments)


def _events(path: str, table: Messages) -> list[LogEvent]:
    """The messages of a kernel log that a wording knows, a kill by the kernel once; the last ones."""
    found: list[tuple[LogEvent, float | None]] = []
    cgroups: dict[str, str] = {}
    killed: set[str] = set()
    for number, line, match in _matches(path, table):
        values = {name: value for name, value in match.values if name != "task_pid"}
        if chosen := _CHOSEN.search(line.text):
            cgroups[chosen[2]] = chosen[1]
            continue
        if kill := _KILLED.search(line.text):
            resident = sum(int(amount) for amount in _RESIDENT.findall(line.text)) * 1024
            values = {"pid": kill[1], "program": kill[2], "memory": size(resident) if resident else ""}
            values["cgroup"] = cgroups.pop(kill[1], "")
            killed.add(kill[1])
        elif _ANNOUNCED.search(line.text) or ((kill := _REAPED.search(line.text)) and kill[1] in killed):
            continue
        event = event_of(
            match.known.code,
            match.known.message,
            path=path,
            line=number,
            text=line.text,
            values=values.items(),
            stamp=line.stamp,
            node=line.host,
        )
        at = moment(line.stamp)
        found.append((event, at if at is not None else line.uptime))
        found = found[-_MOST:] if len(found) > 2 * _MOST else found
    last = max((at for event, at in found if event.fatal and at is not None), default=0.0)
    return [replace(event, earlier=at is not None and at < last - _DAY) for event, at in found]


def _of_kernel(match: Match) -> bool:
    """Whether the kernel says it of a process or a device: services write into its buffer, too."""
    bearing = match.known.message.bearing
    return bearing is Bearing.CAUSE or (bearing is Bearing.SYMPTOM and not _NAMES.isdisjoint(dict(match.values)))


def _matches(path: str, table: Messages) -> Iterator[tuple[int, KernelLine, Match]]:
    """Numbered lines of the kernel with a cause or a symptom. An error ends it."""
    known: dict[bytes, Shape] = {}
    try:
        with open_log(path) as stream:
            for block in blocks(stream):
                for raw, number in zip(block.pieces, block.numbers, strict=True):
                    if table.shape(raw, bare(raw), known).reads:
                        line = parse(text_of(raw[:_LONGEST_LINE]))
                        match = table.in_line(line.text) if line is not None else None
                        if line and match and _of_kernel(match):
                            yield number, line, match
    except OSError:
        return  # who reads the logs says so
