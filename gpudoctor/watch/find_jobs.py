"""Which training jobs run on this machine."""

import time

from gpudoctor.model.redaction import mask_arguments
from gpudoctor.model.unavailable import known, optional
from gpudoctor.model.watch import FoundJob
from gpudoctor.vitals.nvml import survey_gpus
from gpudoctor.vitals.process import procfs
from gpudoctor.vitals.process.attach import training_processes

DRIVER_LIMIT = 5.0
"""Seconds for the driver; the list comes without GPUs when it takes longer."""


def find_jobs() -> list[FoundJob]:
    """Every job that has loaded torch, oldest first."""
    holders = _holders()
    jobs = []
    for top, ranks in training_processes():
        first = procfs.usage(ranks[0].pid)
        pids = {pid for rank in ranks for pid in procfs.tree(rank.pid)}
        gpus = None if holders is None else tuple(sorted(i for i, users in holders.items() if users & pids))
        jobs.append(
            FoundJob(
                pid=top,
                ranks=tuple(rank.pid for rank in ranks),
                user=procfs.user(top),
                seconds=max(0.0, time.time() - procfs.started(first)) if first else 0.0,
                gpus=gpus,
                command=" ".join(mask_arguments(procfs.command(top))),
            )
        )
    return sorted(jobs, key=lambda job: -job.seconds)


def _holders() -> dict[int, set[int]] | None:
    """Pids on each GPU; None where the driver's pids mean nothing here, or there is no driver."""
    survey = optional(lambda: survey_gpus(limit=DRIVER_LIMIT))
    if survey is None or not survey.gpus or not survey.pids_visible:
        return None
    return {gpu.index: {process.pid for process in known(gpu.processes) or ()} for gpu in survey.gpus}
