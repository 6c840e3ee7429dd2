"""Slurm: directives in a job script, and the variables of a job that runs already."""

import re
import shlex
from collections.abc import Mapping

from gpudoctor.lang import say
from gpudoctor.model.read_limits import JOB_LINE
from gpudoctor.model.signs.job import Profile
from gpudoctor.vitals.job.grants import Grants, byte_count, slurm_seconds
from gpudoctor.vitals.job.options import whole

_SHORT = {
    "N": "nodes", "n": "ntasks", "c": "cpus-per-task", "G": "gpus", "t": "time", "p": "partition", "q": "qos",
    "J": "job-name", "o": "output", "e": "error", "A": "account", "C": "constraint", "D": "chdir",
}  # fmt: skip
_PREEMPTIBLE = re.compile(r"preempt|spot|scaveng|backfill|requeue|low-?prio", re.IGNORECASE)


def slurm_options(text: str) -> dict[str, str]:
    """Options of the `#SBATCH` lines by long name; a flag has the value ""."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        if line.strip() and not line.strip().startswith("#"):
            break  # the scheduler stops reading at the first command
        if not line.startswith("#SBATCH"):
            continue
        line = line.removeprefix("#SBATCH")
        try:
            words = shlex.split(line[: JOB_LINE.most], comments=True)
        except ValueError:
            words = line.split()
        at = 0
        while at < len(words):
            word = words[at]
            at += 1
            if word.startswith("--"):
                key, equals, value = word[2:].partition("=")
                if not equals and at < len(words) and not words[at].startswith("-"):
                    value = words[at]
                    at += 1
                found[key] = value
            elif word.startswith("-") and len(word) > 1:
                key = _SHORT.get(word[1], word[1])
                value = word[2:].removeprefix("=")
                if not value and at < len(words) and not words[at].startswith("-"):
                    value = words[at]
                    at += 1
                found[key] = value
    return found


def slurm_grants(options: Mapping[str, str], path: str) -> Grants:
    """What `#SBATCH` options ask for, on one node."""
    nodes = whole(options.get("nodes"))
    tasks = whole(options.get("ntasks"))
    per_node = whole(options.get("ntasks-per-node") or options.get("tasks-per-node"))
    if per_node is None and tasks is not None:
        per_node = max(1, tasks // (nodes or 1))
    gpus, origin = _slurm_gpus(options, nodes or 1, per_node)
    per_gpu = whole(options.get("ntasks-per-gpu"))
    if per_node is None and per_gpu and gpus:
        per_node = per_gpu * gpus
    cpus_per_task = whole(options.get("cpus-per-task"))
    cpus_per_gpu = whole(options.get("cpus-per-gpu"))
    cpus: float | None = None
    if cpus_per_task is not None:
        cpus = float(cpus_per_task * (per_node or 1))
    elif cpus_per_gpu is not None and gpus:
        cpus = float(cpus_per_gpu * gpus)
    return Grants(
        gpus=gpus,
        gpus_origin=say("{origin} in {path}", origin=origin, path=path) if origin else "",
        ranks_per_node=per_node,
        nodes=nodes,
        cpus=cpus,
        cpus_per_task=cpus_per_task,
        memory=_slurm_memory(options, cpus, gpus),
        time_limit=slurm_seconds(options.get("time", "")),
        preemptible=_slurm_preemptible(options),
        signal=options.get("signal") or None,
    )


def gres_gpus(text: str) -> int | None:
    """GPUs of `gpu:a100:4`, `gpu:4`, `gpu`, `a100:2,h100:2` or `4`; None when it names none."""
    total: int | None = None
    for part in text.split(","):
        words = re.sub(r"\([^()]*\)|^gres[:/]", "", part.strip()).split(":")
        count = whole(words[-1])
        generic = words[0] in {"gpu", "gpu:"}
        if text.count("gpu") and not generic and len(words) > 1:
            continue  # another generic resource beside the GPUs: `nvme:1`
        if count is None and generic:
            count = 1
        if count is not None:
            total = (total or 0) + count
    return total


def _slurm_gpus(options: Mapping[str, str], nodes: int, tasks: int | None) -> tuple[int | None, str]:
    """GPUs on one node and the option that says so."""
    if "gpus-per-node" in options:
        return gres_gpus(options["gpus-per-node"]), f"--gpus-per-node={options['gpus-per-node']}"
    if "gpu" in options.get("gres", ""):
        return gres_gpus(options["gres"]), f"--gres={options['gres']}"
    if "gpus-per-task" in options:
        each = gres_gpus(options["gpus-per-task"])
        count = each * (tasks or 1) if each is not None else None
        return count, f"--gpus-per-task={options['gpus-per-task']}"
    if "gpus" in options:
        every = gres_gpus(options["gpus"])
        return (max(1, every // nodes) if every else every), f"--gpus={options['gpus']}"
    return None, ""


def _slurm_memory(options: Mapping[str, str], cpus: float | None, gpus: int | None) -> int | None:
    """Bytes on one node; a bare number is megabytes, and 0 is all of the node's."""
    whole_node = byte_count(options.get("mem", ""), binary=True, default="M")
    if whole_node is not None:
        return whole_node or None
    for option, count in (("mem-per-cpu", cpus), ("mem-per-gpu", gpus)):
        each = byte_count(options.get(option, ""), binary=True, default="M")
        if each and count:
            return int(each * count)
    return None


def _slurm_preemptible(options: Mapping[str, str]) -> bool | None:
    if "requeue" in options:
        return True
    if any(_PREEMPTIBLE.search(options.get(key, "")) for key in ("partition", "qos", "account")):
        return True
    return False if "no-requeue" in options else None


def granted_here(profile: Profile, environment: Mapping[str, str]) -> Grants:
    """What the scheduler gave the job that this process runs in, by its variables."""
    grants = _slurm_here(environment) if profile is Profile.SLURM else Grants()
    ranks = whole(environment.get("LOCAL_WORLD_SIZE"))
    return Grants(ranks_per_node=ranks).over(grants)


def _slurm_here(environment: Mapping[str, str]) -> Grants:
    gpus, origin = None, ""
    for name in ("SLURM_GPUS_ON_NODE", "SLURM_STEP_GPUS", "SLURM_JOB_GPUS", "SLURM_GPUS_PER_NODE"):
        value = environment.get(name, "")
        if value:
            listed = name.endswith(("STEP_GPUS", "JOB_GPUS"))
            gpus = _listed(value) if listed or "," in value else gres_gpus(value)
            origin = name
            break
    cpus = _float(environment.get("SLURM_CPUS_ON_NODE") or environment.get("SLURM_JOB_CPUS_PER_NODE"))
    memory = byte_count(environment.get("SLURM_MEM_PER_NODE", ""), binary=True, default="M")
    if not memory and cpus:
        each = byte_count(environment.get("SLURM_MEM_PER_CPU", ""), binary=True, default="M")
        memory = int(each * cpus) if each else None
    start, end = (_float(environment.get(f"SLURM_JOB_{name}_TIME")) for name in ("START", "END"))
    tasks = whole(
        environment.get("SLURM_STEP_TASKS_PER_NODE")
        or environment.get("SLURM_NTASKS_PER_NODE")
        or environment.get("SLURM_TASKS_PER_NODE")
    )
    if tasks == 1 and (gpus or 0) > 1:
        tasks = None  # one task that holds several GPUs starts the ranks itself, with torchrun or the like
    return Grants(
        gpus=gpus,
        gpus_origin=origin if gpus is not None else "",
        ranks_per_node=tasks,
        nodes=whole(environment.get("SLURM_JOB_NUM_NODES") or environment.get("SLURM_NNODES")),
        cpus=cpus,
        cpus_per_task=whole(environment.get("SLURM_CPUS_PER_TASK")),
        memory=memory or None,
        time_limit=end - start if start is not None and end is not None and end > start else None,
        preemptible=True if whole(environment.get("SLURM_RESTART_COUNT")) else None,
    )


def _listed(text: str) -> int | None:
    """How many GPUs `0,1,3-5` names."""
    total = 0
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d{1,4})(?:-(\d{1,4}))?\s*", part)
        if match is None:
            return None
        total += int(match[2]) - int(match[1]) + 1 if match[2] else 1
    return max(total, 0)


def _float(text: str | None) -> float | None:
    number = whole(text)
    return float(number) if number is not None else None
