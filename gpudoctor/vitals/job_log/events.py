"""Makes an event of a wording that was found, whoever kept the text: a job, the kernel, a scheduler."""

from collections.abc import Iterable
from typing import Any

from gpudoctor.model.log_message import Bearing, LogMessage
from gpudoctor.model.redaction import mask_text
from gpudoctor.model.signs.job_log import LogEvent
from gpudoctor.vitals.job_log.moments import seconds_of

_LONGEST, _LONGEST_VALUE = 400, 300
"""Characters of a text and of a named part of it that are kept."""


def event_of(
    code: str,
    message: LogMessage,
    *,
    path: str,
    line: int,
    text: str,
    values: Iterable[tuple[str, str]],
    stamp: str,
    rank: int | None = None,
    node: str = "",
    longest: int = _LONGEST,
    **more: Any,
) -> LogEvent:
    """The event, its texts masked and cut; its order among others is for the caller to give.

    `more` are fields that a wording does not give.
    """
    return LogEvent(
        order=0,
        path=path,
        line=line,
        text=mask_text(text[:longest]),
        bearing=message.bearing,
        code=code,
        kind=message.kind,
        values=masked(values),
        fatal=message.bearing in (Bearing.CAUSE, Bearing.SYMPTOM),
        rank=rank,
        node=node,
        stamp=stamp,
        seconds=seconds_of(stamp) if stamp else None,
        waits=message.waits,
        unstarted=message.unstarted,
        closing=message.closing,
        explains=message.explains,
        undone=message.undone,
        by_exit_code=bool(message.exits),
        last_line=line,
        **{"lasting": message.lasting, "last": message.last, "outside": message.outside, **more},
    )


def masked(values: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """Named parts without secrets; empty ones are left out."""
    return tuple((name, mask_text(value[:_LONGEST_VALUE])) for name, value in values if value)
