"""Events of a job's log from kernel logs beside it: whom the out-of-memory killer took, what the driver met.

A kernel log is of a whole machine and of days. Only what belongs to this death counts: by the job that a
control group names, by a process, or by the time. What belongs to another is kept as an event of before.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from gpudoctor.model.log_message import Bearing, LogMessage
from gpudoctor.model.redaction import mask_text
from gpudoctor.model.signs.job_log import JobLog, LogEvent
from gpudoctor.text import size
from gpudoctor.vitals.job_log.events import event_of, masked
from gpudoctor.vitals.job_log.lines import blocks, open_log, text_of
from gpudoctor.vitals.job_log.moments import moment, same_death
from gpudoctor.vitals.job_log.wordings import Match, Messages, Shape, bare, messages_table
from gpudoctor.vitals.kernel_lines import KernelLine, parse

_CHOSEN = re.compile(r"oom-kill:constraint=.{0,400}?task_memcg=([^,]+),task=([^,]*),pid=(\d+)")
_ANNOUNCED = re.compile(r"\b[Kk]ill process (\d+) \(")
"""Before Linux 5.2 the kernel first prints whom it chose, and then whom it killed: that may be a child."""
_KILLED = re.compile(r"Killed process (\d+)(?:, UID \d+,)? \(([^)]*)\)")
_REAPED = re.compile(r"oom_reaper: reaped process (\d+) ")
_NEXT = 12
"""Lines within which the killed process follows the chosen one: each of its children may have a line."""
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
"""Seconds: what a kernel log without a job tells of a day before its end may be of another job."""


def with_kernel_logs(log: JobLog, paths: Sequence[str], messages: Iterable[tuple[str, LogMessage]]) -> JobLog:
    """The log, whose files these kernel logs are among, with their messages by what they belong to."""
    if not paths:
        return log
    table = messages_table(tuple(messages))
    alone = all(item.path in paths for item in log.files)
    kernel = [event for path in paths for event in _events(path, table, alone=alone)]
    claimed = {(event.path, event.line) for event in kernel}
    claimed |= {(event.path, event.last_line) for event in kernel}
    killing = {event.path for event in kernel if event.kind == _BY_KERNEL}
    rest = [
        event
        for event in log.events
        # What systemd and the reaper say of a kill repeats the kernel's own words.
        if (event.path, event.line) not in claimed and not (event.kind == _BY_KERNEL and event.path in killing)
    ]
    known = _Death(log, rest, frozenset(paths))
    told = [(item.text, item.rank) for item in rest] + [(item.text, item.rank) for item in log.last_words]
    named = {pid: rank for text, rank in told for pid in _TEXT_PID.findall(text)}
    before: list[LogEvent] = []
    behind: list[LogEvent] = []
    for event in kernel:
        ours = known.holds(event)
        event = replace(event, rank=named.get(dict(event.values).get("pid", ""), event.rank))
        if ours is True and event.bearing is Bearing.CAUSE:
            before.append(event)
        else:
            behind.append(event if ours is not False else replace(event, earlier=True))
    together = (*before, *rest, *behind)
    return replace(log, events=tuple(replace(item, order=number) for number, item in enumerate(together)))


class _Death:
    """What the log itself says of the death, to compare with."""

    def __init__(self, log: JobLog, events: Sequence[LogEvent], kernel: frozenset[str]) -> None:
        own = [item for item in log.files if item.path not in kernel]
        names = [item.path.replace("\\", "/").rpartition("/")[2] for item in own]
        fatal = [item for item in events if item.fatal and item.path not in kernel]
        self._jobs = {found for name in names for found in _NAMED_JOB.findall(name)}
        self._jobs |= {found for item in events for found in _TEXT_JOB.findall(item.text)}
        self._pids = {found for item in fatal for found in _TEXT_PID.findall(item.text)}
        self._moments = [found for item in fatal if (found := moment(item.stamp)) is not None]
        self._alone = not own
        cut = any(item.ends_in_progress for item in own)
        self._died = bool(fatal) or (cut and not log.finished)

    def holds(self, event: LogEvent) -> bool | None:
        """Whether a message of the kernel belongs to it; None where nothing speaks for it or against it."""
        if self._alone:
            return True
        values = dict(event.values)
        job = _CGROUP_JOB.search(values.get("cgroup", ""))
        if job and self._jobs:
            return job[1] in self._jobs
        if values.get("pid") in self._pids:
            return True
        if not self._died:
            return False
        at = moment(event.stamp)
        if at is None or not self._moments:
            return None
        return any(same_death(at, each) for each in self._moments)


def _events(path: str, table: Messages, *, alone: bool) -> list[LogEvent]:
    """The messages of a kernel log that a wording knows, a kill by the kernel once; the last ones.

    `alone` says that no job's log is beside it.
    """
    found: list[LogEvent] = []
    times: list[float | None] = []
    end: list[KernelLine] = []
    chosen: dict[str, int] = {}
    killed: set[str] = set()
    announced: tuple[int, int] | None = None
    for number, line, match in _matches(path, table, end):
        values = {name: value for name, value in match.values if name != "task_pid"}
        if kill := _CHOSEN.search(line.text):
            values = {"cgroup": kill[1], "task": kill[2], "pid": kill[3]}
            chosen[kill[3]] = len(found)
        elif kill := _ANNOUNCED.search(line.text):
            announced = len(found), number
        elif (kill := _KILLED.search(line.text)) and match.known.message.everywhere:
            resident = sum(int(amount) for amount in _RESIDENT.findall(line.text)) * 1024
            values = {"pid": kill[1], "program": kill[2], "memory": size(resident) if resident else ""}
            killed.add(kill[1])
            place = chosen.pop(kill[1], None)
            if place is None and announced is not None and number - announced[1] <= _NEXT:
                place, announced = announced[0], None
            if place is not None:
                values |= {name: value for name, value in found[place].values if name == "cgroup"}
                text = mask_text(line.text[:400])
                pairs = masked(values.items())
                found[place] = replace(found[place], text=text, last_line=number, values=pairs)
                continue
        elif (kill := _REAPED.search(line.text)) and kill[1] in killed:
            continue
        found.append(
            event_of(
                match.known.code,
                match.known.message,
                path=path,
                line=number,
                text=line.text,
                values=values.items(),
                stamp=line.stamp,
                node=line.host,
            )
        )
        times.append(_seconds(line))
        if len(found) > 2 * _MOST:
            found, times, chosen, announced = found[-_MOST:], times[-_MOST:], {}, None
    found, times = found[-_MOST:], times[-_MOST:]
    return _of_days(found, times, _seconds(end[-1])) if alone and end else found


def _of_days(events: list[LogEvent], times: list[float | None], end: float | None) -> list[LogEvent]:
    """The events of a log of days: those of the last day with one count, unless the log goes on for a day."""
    last = max((at for event, at in zip(events, times, strict=True) if event.fatal and at is not None), default=0)
    return [
        replace(
            event,
            earlier=event.earlier or (at is not None and at < last - _DAY),
            doubtful=event.doubtful or (at is not None and end is not None and at < end - _DAY),
        )
        for event, at in zip(events, times, strict=True)
    ]


def _seconds(line: KernelLine) -> float | None:
    """When a line was printed, to compare with others of its file."""
    at = moment(line.stamp)
    return at if at is not None else line.uptime


def _of_kernel(match: Match) -> bool:
    """Whether the kernel says it of a process or a device: services write into its buffer, too."""
    bearing = match.known.message.bearing
    return bearing is Bearing.CAUSE or (bearing is Bearing.SYMPTOM and not _NAMES.isdisjoint(dict(match.values)))


def _matches(path: str, table: Messages, end: list[KernelLine]) -> Iterator[tuple[int, KernelLine, Match]]:
    """Numbered lines of the kernel with a cause or a symptom; into `end` goes its last line. An error ends it."""
    try:
        with open_log(path) as stream:
            known: dict[bytes, Shape] = {}
            for block in blocks(stream):
                for raw, number in zip(block.pieces, block.numbers, strict=True):
                    if table.shape(raw, bare(raw), known).reads:
                        line = parse(text_of(raw[:_LONGEST_LINE]))
                        match = table.in_line(line.text) if line is not None else None
                        if line and match and _of_kernel(match):
                            yield number, line, match
                last = (parse(text_of(piece[:_LONGEST_LINE])) for piece in reversed(block.pieces[-_NEXT:]))
                end.extend(item for item in (next(filter(None, last), None),) if item is not None)
    except OSError:
        return  # who reads the logs says so
