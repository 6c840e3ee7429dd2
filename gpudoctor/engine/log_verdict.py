"""The verdict on the logs of a job: what failed first, and the log as a report carries it."""

from collections.abc import Sequence

from gpudoctor.analysis.job_log.failing_rank import FailingRank, RankSign, failing_rank
from gpudoctor.analysis.job_log.findings import earlier_run, goes_on
from gpudoctor.analysis.job_log.first_cause import FirstCause, LogRole, first_cause
from gpudoctor.analysis.job_log.unexplained import unexplained_error
from gpudoctor.lang import say, term
from gpudoctor.lang.message import concatenated
from gpudoctor.model import Patient, PatientKind, Ranked, Severity
from gpudoctor.model.log_message import LogMoment, LogSummary
from gpudoctor.model.signs.job_log import JobLog, UnknownError
from gpudoctor.model.signs.recording import EARLY_DEATH_FILE
from gpudoctor.model.unavailable import optional
from gpudoctor.text import count

_NO_RANK = {
    PatientKind.COMMAND: say(" No rank reported; gpudoctor read this in the command's output."),
    PatientKind.RECORDING: say(" No rank reported; gpudoctor read this in the traceback that the recording has."),
}

# The log and its first cause as a report carries them.

_INFERRED = frozenset({RankSign.SILENT, RankSign.APART, RankSign.NAMED})
"""Signs of the rank that failed first which are no proof."""
_MOST = 500
"""Moments of a report: the first ones; a log of 4,096 ranks has thousands of the same."""


def summarise_log(log: JobLog) -> LogSummary:
    """Everything that `--format json` says of the log beside the findings."""
    cause = first_cause(log)
    roles = cause.roles if cause is not None else tuple((item, LogRole.HANDLED) for item in log.events if item.fatal)
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
        return say("{title}: nothing could be read.", title=patient.title)
    cause = first_cause(log)
    read = _read(log)
    recording = optional(lambda: patient.recording)
    reported = recording is not None and recording.ranks
    source = "" if reported else _NO_RANK.get(patient.kind, "")
    unknown = unexplained_error(patient)
    if unknown is not None and (cause is None or not source):
        return _unexplained(unknown[0], died=cause is not None)
    if cause is None:
        errors = [item for item in ranked if item.finding.severity is Severity.ERROR]
        if errors:
            return say(
                "{title} shows {name} ({code}).",
                title=patient.title,
                name=errors[0].finding.name,
                code=errors[0].finding.code,
            )
        well = say("{title}: no failure in {read}{end}.", title=patient.title, read=read, end=_end(log))
        return concatenated("", (well, earlier_run(log.events)))
    rank = failing_rank(log)
    if cause.root is None and optional(lambda: patient.flight_records) is not None:
        decided = next((item.finding for item in ranked if item.finding.severity is Severity.ERROR), None)
        if decided is not None:
            return say("The job died. {message}.", message=decided.message.partition(". ")[0].rstrip("."))
    if cause.root is None:
        shown = say("the output of {title}", title=patient.title) if source else patient.title
        return say(
            "The job died, and {shown} shows only consequences: the first cause is not in {read}.{source}",
            shown=shown,
            read=read,
            source=source,
        )
    name = next((item.finding.name for item in ranked if item.finding.code == cause.root.code), "")
    where = say("line {line:,} of {path}", line=cause.root.line, path=cause.root.path)
    if not name:
        return say("The job died at {where}; its check was not selected.{source}", where=where, source=source)
    who = _who(cause, rank)
    if source and who == "The job":
        text = cause.root.text.strip().split("\n")[0][:200].removesuffix(".")
        if EARLY_DEATH_FILE.search(cause.root.path):  # the recording's own: its words say more than its name
            return say("{title} failed: {text}.{source}", title=patient.title, text=text, source=source)
        return say(
            "{title} failed: {text}, {where}.{source}", title=patient.title, text=text, where=where, source=source
        )
    if goes_on(log, cause):
        named = term(name.replace("-", " "))
        return say("The training goes on with {name} since {where}.{source}", name=named, where=where, source=source)
    if cause.root.unstarted and who == "The job" and log.last_step is None:
        return say("The job has not started: see {where}.{source}", where=where, source=source)
    failed = say("failed") if who == "The job" else say("failed first")
    inferred = rank is not None and rank.sign in _INFERRED and rank.rank is not None
    if inferred or (cause.root.mentioned and who != "The job"):
        failed = say("probably failed first")
    return say(
        "{who} {failed}{when}: {name}, {where}.{source}",
        who=who,
        failed=failed,
        when=_when(cause, log, rank),
        name=term(name.replace("-", " ")),
        where=where,
        source=source,
    )


def _unexplained(error: UnknownError, *, died: bool) -> str:
    where = say("line {line:,} of {path}", line=error.line, path=error.path)
    if died:
        return say("The job died. No check knows the error before its end: {where}.", where=where)
    return say("No check knows the error at the end of the log: {where}.", where=where)


def _who(cause: FirstCause, rank: FailingRank | None) -> str:
    assert cause.root is not None
    named = rank is not None and rank.sign is RankSign.NAMED
    if rank is not None and rank.rank is not None and (cause.root.rank is None or cause.root.waits or named):
        return say("Rank {rank}", rank=rank.rank)
    if cause.root.waits:
        return say("The job")  # its ranks only waited
    if len(cause.ranks) > 1:
        return say("{ranks} ranks", ranks=len(cause.ranks))
    return say("Rank {rank}", rank=cause.root.rank) if cause.root.rank is not None else say("The job")


def _when(cause: FirstCause, log: JobLog, rank: FailingRank | None) -> str:
    """The last step before the cause; of a rank that others name, or that is inferred, its own last one."""
    assert cause.root is not None
    step = cause.root.step
    if step is not None and rank is not None and rank.sign in _INFERRED and rank.rank != cause.root.rank:
        own = next((item.step for item in log.last_words if item.rank == rank.rank), None)
        step = int(own) if own is not None and own.is_integer() else None
    return say(", after step {step:,}", step=step) if step is not None else ""


def _read(log: JobLog) -> str:
    lines = count(sum(item.lines for item in log.files), "line")
    return (
        say("{lines} of {files}", lines=lines, files=count(len(log.files), "file"))
        if len(log.files) > 1
        else say("its {lines}", lines=lines)
    )


def _end(log: JobLog) -> str:
    if log.finished:
        return say("; the program says that its training was complete")
    ends = [item for item in log.files if item.ends_in_progress]
    if ends and all(item.behind_steps for item in ends):
        return say("; its last line: {text}", text=ends[-1].behind_steps.rstrip("."))
    if ends:
        step = say(" after step {last_step:,}", last_step=log.last_step) if log.last_step is not None else ""
        return say("; it ends{step}, and does not say why", step=step)
    return say("; it shows no training step") if log.last_step is None else ""
