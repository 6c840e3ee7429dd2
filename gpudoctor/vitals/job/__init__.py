"""The launch of the job: job scripts, manifests, the scheduler's variables and flags, brought to one sign."""

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import fields, replace
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING

from gpudoctor.errors import UsageError
from gpudoctor.model.redaction import mask_text
from gpudoctor.model.signs.job import Grants, Job, Profile

if TYPE_CHECKING:
    from gpudoctor.vitals.job.scripts import JobScript


def detect_profile(environment: Mapping[str, str]) -> Profile:
    """The world this process runs in, by the variables that schedulers set."""
    if environment.get("SLURM_JOB_ID") or environment.get("SLURM_JOBID"):
        return Profile.SLURM
    if environment.get("KUBERNETES_SERVICE_HOST"):
        return Profile.KUBERNETES
    if environment.get("TORCHELASTIC_RUN_ID") or (
        environment.get("LOCAL_WORLD_SIZE") and environment.get("RANK") is not None
    ):
        return Profile.TORCHRUN
    return Profile.NONE


def read_job(
    profile: Profile | None,
    environment: Mapping[str, str],
    job_scripts: Sequence[str | PathLike[str]] = (),
    command: Sequence[str] = (),
    ranks: int | None = None,
    gpus: int | None = None,
    card: str | None = None,
) -> Job:
    """The launch as far as it is known. Flags count most, then job scripts, then the scheduler's variables.

    Raises `Unavailable` with a sentence for a job script that cannot be read.
    """
    scripts: list[JobScript] = []
    if job_scripts:
        from gpudoctor.vitals.job.scripts import read_script

        scripts += [read_script(Path(fspath(item)), environment) for item in job_scripts]
    stated = next((item.profile for item in scripts if item.profile is not None), None)
    world = profile or stated or detect_profile(environment)
    grants = Grants()
    for item in scripts:
        grants = grants.over(item.grants)
    # A script that is only looked at on another machine is not the job that this process runs in.
    started = world is not Profile.NONE or "LOCAL_WORLD_SIZE" in environment
    if started and (not scripts or stated in (None, detect_profile(environment))):
        from gpudoctor.vitals.job.scheduler import granted_here

        grants = grants.over(granted_here(world, environment))
    if gpus is not None:
        grants = replace(grants, gpus_granted=gpus, gpus_origin="--gpus")
    launches = [launch for item in scripts for launch in item.launches]
    if command:
        from gpudoctor.vitals.job.scripts import launches_of

        launches += launches_of(command, grants)
    if gpus is not None:
        launches = [replace(launch, grants=replace(launch.grants, gpus_granted=gpus)) for launch in launches]
    asked = [launch.ranks_per_node for launch in launches if launch.ranks_per_node and launch.trains]
    nodes = [launch.nodes for launch in launches if launch.nodes]
    # Tasks are ranks where srun or mpirun starts them; a launcher inside one task counts for itself.
    by_task = not launches or not scripts or any(item.launcher in {"srun", "mpirun"} for item in launches)
    tasks = grants.ranks_per_node if by_task else None
    first = scripts[0] if scripts else None
    known = {item.name: getattr(grants, item.name) for item in fields(grants)}
    known["ranks_per_node"] = ranks if ranks is not None else max(asked, default=tasks)
    known["nodes"] = max(nodes, default=grants.nodes)
    return Job(
        **known,
        profile=world,
        launches=tuple(launches),
        card=card,
        capability=_capability(card, grants.gpus_origin),
        script_path=first.path if first else None,
        script_text=mask_text(first.text) if first else "",
        ignored=tuple(first.ignored) if first else (),
        skipped=tuple(sentence for item in scripts for sentence in dict.fromkeys(item.skipped)),
    )


def _capability(card: str | None, asked: str) -> float | None:
    """Compute capability of a named card, or of the one in `--gres=gpu:v100:4`; None where no table has it."""
    names = [card] if card else re.findall(r"(?<=[:=])[a-zA-Z]+\d+\w*", asked)
    if not names:
        return None
    from gpudoctor.estimate.gpus import device

    with suppress(UsageError):
        found = device(names[0]).capability
        return found[0] + found[1] / 10 if found else None
    return None
