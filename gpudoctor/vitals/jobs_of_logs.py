"""Which of several logs are of one job: schedulers put the job's number into the names of its files."""

import os
import re
from collections.abc import Sequence

_NUMBERED = (
    re.compile(r"(?i)(?:^|[^a-z])slurm[-_.]?(\d{1,12}(?:_\d{1,6})?)(?!\d)"),  # `%A_%a` is a job of an array
    re.compile(r"(?i)(?:^|[^a-z])job(?:[-_.]?id)?[-_.]?(\d{3,12})(?!\d)"),
    re.compile(r"\.[oe](\d{3,12}(?:\.\d{1,6})?)$"),  # PBS, SGE
    # `%x-%j`: no date, and no process of one job
    re.compile(r"^(?!.*(?:rank|worker|proc|pid|node|host|gpu|task)).*[-_.]([1-9]\d{4,6}|[3-9]\d{7})(?=\.(?:out|err)$)"),
    re.compile(r"^([1-9]\d{4,6}|[3-9]\d{7})(?=_\d{1,6}(?:_log)?\.(?:out|err)$|\.(?:out|err)$)"),  # `%j_%t`
)


def job_of(path: str) -> str:
    """The job's number in a file's name, else in its folder's; "" without one."""
    for part in reversed(path.replace("\\", "/").split("/")[-2:]):
        part = part.removesuffix(".gz")
        for pattern in _NUMBERED:
            if found := pattern.search(part):
                return found[1]
    return ""


def last_job(paths: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The files of the job that wrote last with those of no job, and the files of the other jobs."""
    job_by_path = {path: job_of(path) for path in paths}
    written: dict[str, float] = {}
    for path, job in job_by_path.items():
        if job:
            written[job] = max(written.get(job, 0.0), _written(path))
    if len(written) < 2:
        return tuple(paths), ()
    last = max(written, key=lambda job: (written[job], [int(number) for number in re.findall(r"\d+", job)]))
    kept = tuple(path for path in paths if job_by_path[path] in ("", last))
    return kept, tuple(path for path in paths if job_by_path[path] not in ("", last))


def _written(path: str) -> float:
    """When a file was written last, in whole seconds: copies of one moment go by their numbers."""
    try:
        return float(int(os.path.getmtime(path)))
    except OSError:
        return 0.0
