"""The log and its first cause as a report carries them."""

from gpudoctor.analysis.job_log.first_cause import LogRole, first_cause
from gpudoctor.model.log_message import LogMoment, LogSummary
from gpudoctor.model.signs.job_log import JobLog

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
        finished=log.finished,
        died=cause is not None,
        moments=tuple(moments[:_MOST]),
    )
