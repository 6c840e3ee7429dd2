"""Makes events of a job's log of what its scheduler kept."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from gpudoctor.lang import say
from gpudoctor.lang.message import concatenated
from gpudoctor.model.external_files import read_file
from gpudoctor.model.log_message import Bearing, LogMessage
from gpudoctor.model.read_limits import SMALL_JSON
from gpudoctor.model.signs.job_log import JobLog, LogEvent, LogFile
from gpudoctor.model.unavailable import Unread
from gpudoctor.vitals.job_log import read_job_log
from gpudoctor.vitals.job_log.events import event_of
from gpudoctor.vitals.log_lines import text_of
from gpudoctor.vitals.scheduler_records import kubernetes, slurm
from gpudoctor.vitals.scheduler_records.slurm import SlurmRecord

_ORDER = (
    "oom-kernel", "oom-slurm", "oom-kubernetes", "no-space", "node-failure", "preemption", "evicted", "probe",
    "time-limit", "held", "launch", "cancelled", "sigkill", "sigterm",
)  # fmt: skip
"""Kinds, the most telling first: of a job that ran out of memory, the steps are merely cancelled."""
_BEFORE_ALL = frozenset(_ORDER[:7])
"""What strikes a job that is well: what its log says is later. A limit of time may end what stood still."""


def begins_as_record(head: str) -> bool:
    """Whether the first lines of a text may be of one: few logs begin so, and only those are read whole."""
    first = next((line for line in head.splitlines() if line.strip()), "")
    return first.startswith(("JobId=", "Name:")) or slurm.names_columns(first) or kubernetes.is_events([first])


def is_scheduler_record(data: bytes) -> bool:
    """Whether a whole small file is one: a log may begin or end with such a text, too."""
    lines = [line for line in text_of(data).splitlines() if line.strip()]
    forms = (slurm.is_sacct, slurm.is_scontrol, kubernetes.is_events, kubernetes.is_description)
    return any(form(lines) for form in forms)


def with_scheduler_records(log: JobLog, paths: Sequence[str], messages: Iterable[tuple[str, LogMessage]]) -> JobLog:
    """The log with the deaths that these files tell of. Raises `Unread` if nothing could be read."""
    if not paths:
        return log
    messages = tuple(messages)
    files, problems = list(log.files), list(log.problems)
    records: list[tuple[str, SlurmRecord]] = []
    found: list[LogEvent] = []
    healthy = False
    for path in paths:
        try:
            data = read_file(path, SMALL_JSON)
            text = text_of(data)
            lines = [(number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
            own = list(slurm.records(lines))
            records += [(path, record) for record in own]
            if not own:
                found += _of_kubernetes(path, text, messages)
                healthy = healthy or kubernetes.good_status(text) == "Succeeded"
        except OSError as error:
            problems.append(say("{path}: cannot be read: {reason}", path=path, reason=error.strerror or error))
        else:
            files.append(LogFile(path=path, lines=len(data.splitlines()), bytes=len(data)))
    if not files:
        raise Unread(concatenated("; ", problems))
    records = _of_this_job(records, [item.path for item in log.files])
    healthy = healthy or any(record.healthy for _, record in records)
    found += _deaths(records, messages)
    deaths = [replace(item, step=log.last_step) for item in found if item.kind in _ORDER]
    before = [item for item in deaths if item.kind in _BEFORE_ALL]
    behind = [item for item in deaths if item.kind not in _BEFORE_ALL]
    if not (deaths or any(item.fatal for item in log.events)):
        behind = [item for item in found if item.fatal] or found  # of a pod that did not begin
    together = (*before, *log.events, *behind)
    return replace(
        log,
        files=tuple(files),
        events=tuple(replace(item, order=number) for number, item in enumerate(together)),
        finished=log.finished or (not deaths and healthy),
        problems=tuple(problems),
    )


def _of_kubernetes(path: str, text: str, messages: tuple[tuple[str, LogMessage], ...]) -> list[LogEvent]:
    """The most telling event of a text of Kubernetes, else all."""
    log = read_job_log([path], messages, contents={path: text.encode()})
    events = list(log.events)
    if kubernetes.good_status(text):  # what it tells of earlier is overcome, and its node may be ready again
        crashes = "CrashLoopBackOff" in text
        events = [item for item in events if item.bearing is not Bearing.CONSEQUENCE or crashes]
        events = [item for item in events if "NodeNotReady" not in item.text]
    told = [item for item in events if item.kind in _ORDER and not item.succeeded]
    if not told:
        return events
    event = min(told, key=lambda item: _ORDER.index(item.kind))
    if event.kind == "oom-kubernetes" and (limit := kubernetes.memory_limit(text)):
        event = replace(event, values=(*event.values, ("limit", limit)))
    return [event]


def _of_this_job(records: list[tuple[str, SlurmRecord]], logs: Sequence[str]) -> list[tuple[str, SlurmRecord]]:
    """Of several jobs the one that the name of a log holds (`slurm-4711.out`), else all."""
    names = " ".join(path.replace("\\", "/").rpartition("/")[2] for path in logs)
    numbers = set(re.findall(r"(?<![A-Za-z0-9])[\d_]+(?![A-Za-z0-9])", names))
    return [item for item in records if item[1].job in numbers] or records


def _deaths(records: list[tuple[str, SlurmRecord]], messages: tuple[tuple[str, LogMessage], ...]) -> Iterable[LogEvent]:
    """For each job of Slurm the most telling record; a job that was queued again counts by its last end."""
    known = {message.kind: (code, message) for code, message in reversed(messages)}
    for job in dict.fromkeys(record.job for _, record in records):
        own = [(path, record) for path, record in records if record.job == job]
        heads = [number for number, (_, record) in enumerate(own) if record.head]
        last = own[heads[-1] :] if heads else own
        told = [item for item in last if item[1].kind in _ORDER and item[1].kind in known]
        if not told or (heads and last[0][1].healthy):
            continue
        path, first = min(told, key=lambda item: _ORDER.index(item[1].kind))
        code, message = known[first.kind]
        event = event_of(
            code,
            message,
            path=path,
            line=first.line,
            text=first.text,
            values=_gathered(first, [record for _, record in last]).items(),
            stamp=first.stamp,
            node=first.node,
        )
        yield event


def _gathered(first: SlurmRecord, all_of_job: list[SlurmRecord]) -> dict[str, str]:
    """Its values, with those that only other rows of the job have: the job's row has no memory in use."""
    own = dict(first.values)
    for record in all_of_job:
        if record.kind == first.kind:
            own = {**record.values, **own}
    limits = (record.values.get("limit", "") for record in all_of_job if record.kind != "time-limit")
    if first.kind == "oom-slurm":
        own.setdefault("limit", next(filter(None, limits), ""))
    return own
