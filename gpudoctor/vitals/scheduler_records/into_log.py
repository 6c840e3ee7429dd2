"""Makes events of a job's log of what its scheduler kept."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from gpudoctor.lang import say
from gpudoctor.lang.message import concatenated
from gpudoctor.model.external_files import load_json, read_file
from gpudoctor.model.log_message import Bearing, LogMessage
from gpudoctor.model.read_limits import SMALL_JSON
from gpudoctor.model.signs.job_log import JobLog, LogEvent, LogFile
from gpudoctor.model.unavailable import Unread
from gpudoctor.vitals.job_log import read_job_log
from gpudoctor.vitals.job_log.events import event_of
from gpudoctor.vitals.log_lines import text_of
from gpudoctor.vitals.scheduler_records import kubernetes, slurm
from gpudoctor.vitals.scheduler_records.record import BEFORE_ALL, ORDER, SchedulerRecord

_JSON_KIND = re.compile(rf'"kind"\s*:\s*"(?:{"|".join(kubernetes.KINDS)})"')


def begins_as_record(head: str) -> bool:
    """Whether the first lines of a text may be of one: few logs begin so, and only those are read whole."""
    first = next((line for line in head.splitlines() if line.strip()), "")
    return first.startswith(("{", "JobId=", "Name:")) or slurm.names_columns(first) or kubernetes.is_events([first])


def is_scheduler_record(data: bytes) -> bool:
    """Whether a whole small file is one: a log may begin or end with such a text, too."""
    text = text_of(data)
    if text.lstrip()[:1] == "{":
        return '"apiVersion"' in text and _JSON_KIND.search(text) is not None
    lines = _lines_of(text)
    forms = (slurm.is_sacct, slurm.is_scontrol, kubernetes.is_events, kubernetes.is_description)
    return any(form(lines) for form in forms)


def with_scheduler_records(log: JobLog, paths: Sequence[str], messages: Iterable[tuple[str, LogMessage]]) -> JobLog:
    """The log with the deaths that these files tell of. Raises `Unread` if nothing could be read."""
    if not paths:
        return log
    messages = tuple(messages)
    known = {message.kind: (code, message) for code, message in reversed(messages)}
    files, problems = list(log.files), list(log.problems)
    records: list[tuple[str, SchedulerRecord]] = []
    tables: dict[str, _Table] = {}
    for path in paths:
        try:
            data = read_file(path, SMALL_JSON)
            records += [(path, record) for record in _records(text_of(data))]
            tables |= _table(path, text_of(data))
        except OSError as error:
            problems.append(say("{path}: cannot be read: {reason}", path=path, reason=error.strerror or error))
        except ValueError as error:
            problems.append(say("{path}: cannot be read as a record of a scheduler: {error}", path=path, error=error))
        else:
            files.append(LogFile(path=path, lines=len(data.splitlines()), bytes=len(data)))
    if not files:
        raise Unread(concatenated("; ", problems))
    records = _of_this_job(records, [item.path for item in log.files])
    deaths = [(path, record) for path, record in _deaths(records) if record.kind in known]
    events = {record: _event(path, record, *known[record.kind], log) for path, record in deaths}
    before = [event for record, event in events.items() if record.kind in BEFORE_ALL]
    behind = [event for record, event in events.items() if record.kind not in BEFORE_ALL]
    if not (deaths or any(item.fatal for item in log.events)):
        behind = _never_started(tables, messages)
    together = (*before, *log.events, *behind)
    return replace(
        log,
        files=tuple(files),
        events=tuple(replace(item, order=number) for number, item in enumerate(together)),
        finished=log.finished or (not deaths and any(record.healthy for _, record in records)),
        problems=tuple(problems),
    )


def _lines_of(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.strip()]


@dataclass(frozen=True, slots=True)
class _Table:
    """A text of Kubernetes that may tell of a pod that did not begin."""

    text: str
    runs: bool
    """Whether its pod runs, or has ended well."""
    of_json: bool
    """Whether its lines are made of JSON, which has none."""

    def passes(self, event: LogEvent) -> bool:
        """Whether a message of it tells of a pod that does not run: its node may be ready again by now."""
        crashes = "CrashLoopBackOff" in self.text
        passed = event.kind == "node-failure" or (event.bearing is Bearing.CONSEQUENCE and not crashes)
        return not (self.runs and passed)


def _table(path: str, text: str) -> dict[str, _Table]:
    """By its path, the table that a text is; empty for another text."""
    if text.lstrip()[:1] == "{":
        value = load_json(text)
        healthy = any(record.healthy for record in kubernetes.of_json(value))
        return {path: _Table(kubernetes.as_table(value), runs=healthy, of_json=True)}
    lines = _lines_of(text)
    if not kubernetes.is_table(lines):
        return {}
    return {path: _Table(text, runs=kubernetes.runs(lines), of_json=False)}


def _never_started(tables: Mapping[str, _Table], messages: tuple[tuple[str, LogMessage], ...]) -> list[LogEvent]:
    """What the texts of Kubernetes say of a pod that did not begin: no record of an end tells of it."""
    tables = {path: table for path, table in tables.items() if table.text}
    contents = {path: f"{table.text}\n".encode() for path, table in tables.items()}
    found = read_job_log(list(tables), messages, contents=contents) if tables else None
    events = [
        replace(item, line=1, last_line=1) if tables[item.path].of_json else item
        for item in (found.events if found is not None else ())
        if tables[item.path].passes(item)
    ]
    return [item for item in events if item.fatal] or events


def _records(text: str) -> Iterator[SchedulerRecord]:
    """Raises `ValueError` for JSON that is broken."""
    if text.lstrip()[:1] == "{":
        yield from kubernetes.of_json(load_json(text))
        return
    lines = [(number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
    texts = [line for _, line in lines]
    if slurm.is_sacct(texts):
        yield from slurm.of_sacct(lines)
    elif slurm.is_scontrol(texts):
        yield from slurm.of_scontrol(lines)
    elif kubernetes.is_events(texts):
        yield from kubernetes.of_events(lines)
    else:
        yield from kubernetes.of_description(lines)


def _of_this_job(records: list[tuple[str, SchedulerRecord]], logs: Sequence[str]) -> list[tuple[str, SchedulerRecord]]:
    """Of several jobs the one that the name of a log holds (`slurm-4711.out`), else all."""
    names = " ".join(path.replace("\\", "/").rpartition("/")[2] for path in logs)
    jobs = {record.job for _, record in records if record.job}
    named = {job for job in jobs if re.search(rf"(?<![A-Za-z0-9]){re.escape(job)}(?![A-Za-z0-9])", names)}
    return [item for item in records if item[1].job in named] if named else records


def _deaths(records: list[tuple[str, SchedulerRecord]]) -> Iterator[tuple[str, SchedulerRecord]]:
    """For each job the most telling record; a job that was queued again counts by its last end."""
    jobs: dict[str, list[tuple[str, SchedulerRecord]]] = {}
    for path, record in records:
        jobs.setdefault(record.job, []).append((path, record))
    for each in jobs.values():
        heads = [number for number, (_, record) in enumerate(each) if _is_head(record)]
        last = each[heads[-1] :] if heads else each
        told = [item for item in last if item[1].kind in ORDER]
        if told and not (heads and last[0][1].healthy):
            path, first = min(told, key=lambda item: ORDER.index(item[1].kind))
            yield path, replace(first, values=_gathered(first, [record for _, record in last]))


def _is_head(record: SchedulerRecord) -> bool:
    """Whether it is the row of a job of Slurm itself, which its steps follow."""
    return re.match(rf"{re.escape(record.job)}(?:[|;,\t ]|$)", record.text) is not None and record.job != ""


def _gathered(first: SchedulerRecord, all_of_job: list[SchedulerRecord]) -> tuple[tuple[str, str], ...]:
    """Its values, with those that only other rows of the job have: the job's row has no memory in use."""
    own = dict(first.values)
    for record in all_of_job:
        if record.kind == first.kind:
            own |= {key: value for key, value in record.values if key not in own}
    if first.kind.startswith("oom"):
        limits = [dict(record.values).get("limit", "") for record in all_of_job if record.kind != "time-limit"]
        own.setdefault("limit", next(filter(None, limits), ""))
    return tuple((key, value) for key, value in own.items() if value)


def _event(path: str, record: SchedulerRecord, code: str, message: LogMessage, log: JobLog) -> LogEvent:
    event = event_of(
        code,
        message,
        path=path,
        line=record.line,
        text=record.text,
        values=record.values,
        stamp=record.stamp,
        node=record.node,
    )
    return replace(event, step=log.last_step)
