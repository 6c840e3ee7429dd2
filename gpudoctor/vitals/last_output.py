"""What a command printed that died before a rank reported: it is a log only if it names a failure.

So are the tracebacks of ranks that died before they imported torch, while others waited for them.
"""

import os
from collections.abc import Iterable, Mapping
from types import MappingProxyType

from gpudoctor.analysis.job_log.first_cause import first_cause
from gpudoctor.analysis.run.deaths import died_before_torch
from gpudoctor.lang import say
from gpudoctor.model.log_message import LogMessage
from gpudoctor.model.signs.job_log import JobLog
from gpudoctor.model.signs.recording import Recording
from gpudoctor.model.unavailable import NoFailureLogged, Unavailable, Unread
from gpudoctor.text import joined
from gpudoctor.vitals.job_log import read_job_log


def read_last_output(
    recording: Recording,
    messages: Iterable[tuple[str, LogMessage]],
    written: Mapping[str, int] = MappingProxyType({}),
    *,
    early: bool = True,
) -> JobLog:
    """The log of a command that failed without a rank, or of the ranks that never reported.

    Raises `Unavailable` if there is none.

    `written` are the files that it printed to, each with its first byte that counts. `early` adds what the
    recording has of processes that died before they imported torch.
    """
    end = recording.end
    lost = died_before_torch(recording)
    if (recording.ranks and not lost) or (end is not None and not end.failed):
        raise Unavailable("no log was named")  # how it ended is in the recording
    contents = lost or (recording.early_deaths if early else {})
    written = {} if lost else written
    if not written and not contents:
        raise Unavailable("the command's output went to no file")
    code = end.exit_code if end is not None else None
    try:
        log = read_job_log([*written, *contents], messages, written, exit_code=code, contents=contents)
    except Unread as reason:
        raise Unavailable(str(reason)) from None  # the user named no log: none is missing
    if first_cause(log) is None:
        names = sorted({os.path.basename(item.path) for item in log.files})
        raise NoFailureLogged(say("gpudoctor found no cause in {names}", names=joined(names)))
    return log
