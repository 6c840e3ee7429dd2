"""The verdict on the logs of a job: what failed first, and the log as a report carries it."""

from collections.abc import Sequence

from gpudoctor.analysis.job_log.failing_rank import FailingRank, RankSign, failing_rank
from gpudoctor.analysis.job_log.first_cause import FirstCause, LogRole, first_cause
from gpudoctor.model import Patient, PatientKind, Ranked, Severity
from gpudoctor.model.log_message import LogMoment, LogSummary
from gpudoctor.model.signs.job_log import JobLog
from gpudoctor.model.unavailable import optional
from gpudoctor.text import count

_NO_RANK = {
    PatientKind.COMMAND: " No rank reported; gpudoctor read this in the command's output.",
    PatientKind.RECORDING: " No rank reported; gpudoctor read this in the traceback that the recording has.",
}

# The log and its first cause as a report carries them.

_INFERRED = frozenset({RankSign.SILENT, RankSign.APART, RankSign.ENDED})
"""Signs of the rank that failed first which are no proof."""
_MOST = 500
"""Moments of a report: the first ones; a log of 4,096 ranks has thousands of the same."""


def summarise_log(log: JobLog) -> LogSummary:
    """Everything that `--format json` says of the log beside the findings."""
    cause = first_cause(log)
    roles = (
        cause.roles
        if cause is not None
        else tuple((item, LogRole.HANDLED) for item in log.events if item.fatal)
    )
    who = failing_rank(log)
    moments = [
        LogMoment(
            role=role.value,
            code=event.code,
            kind=event.kind,
            path=event.path,
            line=event.line,
            last_line=event.last_line or event.line,
            count=event.count,
            rank=event.rank,
            node=event.node,
            time=event.stamp,
            step=event.step,
            text=event.text.strip().split("\n")[0][:300],
        )
        for event, role in roles
        if role is not LogRole.HARMLESS
    ]
    return LogSummary(
        files=tuple(item.path for item in log.files),
        lines=sum(item.lines for item in log.files),
        bytes=sum(item.bytes for item in log.files),
        ranks=log.ranks,
        world=log.world,
        last_step=log.last_step,
        rank=who.rank if who is not None else None,
        finished=log.finished,
        died=cause is not None,
        moments=tuple(moments[:_MOST]),
    )


def pronounce_log(patient: Patient, ranked: Sequence[Ranked]) -> str:
    """One or two sentences: the first cause, or why the log does not say it."""
    log = optional(lambda: patient.job_log)
    if log is None:
        return f"{patient.title}: nothing could be read."
    cause = first_cause(log)
    read = _read(log)
    source = _NO_RANK.get(patient.kind, "")
    if cause is None:
        errors = [item for item in ranked if item.finding.severity is Severity.ERROR]
        if errors:
            return f"{patient.title} shows {errors[0].finding.name} ({errors[0].finding.code})."
        return f"{patient.title}: no failure in {read}{_end(log)}."
    rank = failing_rank(log)
    if cause.root is None and optional(lambda: patient.flight_records) is not None:
        decided = next((item.finding for item in ranked if item.finding.severity is Severity.ERROR), None)
        if decided is not None:
            return f"The job died. {decided.message.partition('. ')[0].rstrip('.')}."
    if cause.root is None:
        if rank is not None and rank.sign is RankSign.ENDED:
            return f"The job died. {rank.words.partition('. ')[0].rstrip('.')}.{source}"
        shown = f"the output of {patient.title}" if source else patient.title
        return f"The job died, and {shown} shows only consequences: the first cause is not in {read}.{source}"
    name = next((item.finding.name for item in ranked if item.finding.code == cause.root.code), "")
    if not name:
        where = f"line {cause.root.line:,} of {cause.root.path}"
        return f"The job died at {where}; its check was not selected.{source}"
    who = _who(cause, rank)
    where = f"line {cause.root.line:,} of {cause.root.path}"
    failed = "failed" if who == "The job" else "failed first"
    if rank is not None and rank.sign in _INFERRED and rank.rank is not None:
        failed = "probably failed first"
    return f"{who} {failed}{_when(cause)}: {name.replace('-', ' ')}, {where}.{source}"


def _who(cause: FirstCause, rank: FailingRank | None) -> str:
    assert cause.root is not None
    if rank is not None and rank.rank is not None and (cause.root.rank is None or cause.root.waits):
        return f"Rank {rank.rank}"
    if cause.root.waits:
        return "The job"  # its ranks only waited
    if len(cause.ranks) > 1:
        return f"{len(cause.ranks)} ranks"
    return f"Rank {cause.root.rank}" if cause.root.rank is not None else "The job"


def _when(cause: FirstCause) -> str:
    assert cause.root is not None
    return f", after step {cause.root.step:,}" if cause.root.step is not None else ""


def _read(log: JobLog) -> str:
    lines = count(sum(item.lines for item in log.files), "line")
    return f"{lines} of {count(len(log.files), 'file')}" if len(log.files) > 1 else f"its {lines}"


def _end(log: JobLog) -> str:
    if log.finished:
        return "; the program says that its training was complete"
    if any(item.ends_in_progress for item in log.files):
        step = f" after step {log.last_step:,}" if log.last_step is not None else ""
        return f"; it ends in the middle of the training{step}, without a reason"
    return ""
