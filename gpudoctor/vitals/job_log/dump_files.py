"""Adds to a job's log the stack dumps that are files of their own: `py-spy dump --json`."""

from collections.abc import Sequence
from dataclasses import replace

from gpudoctor.lang import say
from gpudoctor.lang.message import concatenated
from gpudoctor.model.external_files import load_json, read_file
from gpudoctor.model.read_limits import SMALL_JSON
from gpudoctor.model.signs.job_log import JobLog, LogFile
from gpudoctor.model.unavailable import Unread
from gpudoctor.vitals.job_log.reader import rank_of
from gpudoctor.vitals.job_log.stack_dumps import of_json, with_ranks


def with_dump_files(log: JobLog, paths: Sequence[str]) -> JobLog:
    """The log with the stacks of these files. Raises `Unread` if nothing at all could be read."""
    if not paths:
        return log
    files, problems, stacks = list(log.files), list(log.problems), list(log.stacks)
    for path in paths:
        try:
            data = read_file(path, SMALL_JSON)
            stacks += of_json(path, load_json(data), rank_of(path))
        except OSError as error:
            problems.append(say("{path}: cannot be read: {reason}", path=path, reason=error.strerror or error))
        except ValueError as error:
            problems.append(say("{path}: cannot be read as a stack dump of py-spy: {error}", path=path, error=error))
        else:
            files.append(LogFile(path=path, lines=data.count(b"\n") + 1, bytes=len(data)))
    if not files:
        raise Unread(concatenated("; ", problems) or "no log was named")
    return replace(log, files=tuple(files), stacks=with_ranks(stacks), problems=tuple(problems))
