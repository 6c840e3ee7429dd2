"""Where a job script sets the end of a job: its time limit, or that it may be stopped at any time."""

import re

from gpudoctor.model.evidence import Setting
from gpudoctor.model.signs.job import Job
from gpudoctor.text import duration

_LIMIT = re.compile(r"--time[= ]|#SBATCH\s+-t\s|walltime|activeDeadlineSeconds|^\s*#\w+\s+-t\s")
_PREEMPTED = re.compile(r"requeue|preempt|spot|scavenge|low_?prio|backfill", re.IGNORECASE)


def limit_setting(job: Job) -> Setting:
    """The line that limits the job, as evidence; the job as a whole where no line does."""
    wanted = _LIMIT if job.time_limit is not None else _PREEMPTED
    path = job.script_path
    for number, line in enumerate(job.script_text.splitlines(), 1):
        if wanted.search(line):
            return Setting(
                key="time limit" if job.time_limit is not None else "preemption",
                value=line.strip(),
                origin=path or "the scheduler",
                path=path,
                line=number,
                reproduce=f"sed -n {number}p {path}" if path else None,
            )
    value = f"{duration(job.time_limit)}" if job.time_limit is not None else "preemptible"
    return Setting(key="time limit", value=value, origin=path or "the scheduler", path=path)
