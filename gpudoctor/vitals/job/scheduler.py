"""Slurm: directives in a job script, and the variables of a job that runs already."""

import re
from collections.abc import Mapping
from dataclasses import replace

from gpudoctor.lang import say
from gpudoctor.model.read_limits import JOB_LINE
from gpudoctor.model.signs.job import Grants, Profile
from gpudoctor.vitals.job.grants import byte_count, slurm_seconds
from gpudoctor.vitals.job.options import Options, launcher_tables, whole

_SEVERAL = re.compile(r"\d+[-,][\d:,-]*(?:%(?!1$)\d+)?")  # `0-7`, and not `0-7%1`
_PREEMPTIBLE = re.compile(r"preempt|spot|scaveng|backfill|requeue|low-?prio", re.IGNORECASE)


def slurm_options(text: str) -> tuple[dict[str, str], list[tuple[int, str]]]:
    """Options of the `#SBATCH` lines by long name, a flag as ""; lines below the first command, which are not read."""
    found: dict[str, str] = {}
    ignored: list[tuple[int, str]] = []
    began = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("#SBATCH"):
            if began:
                ignored.append((number, line.strip()))
            else:
                found |= _directive(line.removeprefix("#SBATCH"))
        elif line.strip() and not line.lstrip().startswith("#"):
            began = True
    return found, ignored


def _directive(line: str) -> dict[str, str]:
    """Options of one line, by long name."""
    names = launcher_tables()["slurm"]["short"].split()
    short = dict(zip(names[::2], names[1::2], strict=True))
    words = re.split(r"\s#", line[: JOB_LINE.most])[0].split()
    found: dict[str, str] = {}
    while words and words[0].startswith("-"):
        options = Options(words, " ".join(short), stop=False)
        for name, value in options.values.items():
            found[short.get(name, name)] = value
        words = options.rest
    return found


def slurm_grants(options: Mapping[str, str], path: str) -> Grants:
    """What `#SBATCH` options ask for, on one node."""
    nodes = whole(options.get("nodes"))
    tasks = whole(options.get("ntasks"))
    per_node = whole(options.get("ntasks-per-node") or options.get("tasks-per-node"))
    if tasks is not None:
        most = max(1, tasks // (nodes or 1))
        per_node = min(per_node or most, most)  # beside --ntasks it is only an upper bound
    gpus, origin = _slurm_gpus(options, nodes or 1, per_node)
    gpus_per_task = gres_gpus(options.get("gpus-per-task", ""))
    if "gpu-bind" in options:
        gpus_per_task = None  # it says which GPUs a task sees: not its own alone
    cpus_per_task = whole(options.get("cpus-per-task"))
    cpus_per_gpu = whole(options.get("cpus-per-gpu"))
    cpus = whole(options.get("cpus"))
    if cpus is None and cpus_per_task is not None:
        cpus = cpus_per_task * (per_node or 1)
    elif cpus is None and cpus_per_gpu is not None and gpus:
        cpus = cpus_per_gpu * gpus
    return Grants(
        gpus_granted=gpus,
        gpus_origin=say("{origin} in {path}", origin=origin, path=path) if origin else "",
        ranks_per_node=per_node,
        nodes=nodes,
        cpus_granted=cpus,
        cpus_per_task=cpus_per_task,
        gpus_per_task=gpus_per_task,
        memory_granted=_slurm_memory(options, cpus, gpus),
        time_limit=slurm_seconds(options.get("time", "")),
        preemptible=_slurm_preemptible(options),
        lost="$SLURM_TMPDIR $TMPDIR /tmp /dev/shm" if options else "",
        shared=_SEVERAL.fullmatch(options.get("array", "")) is not None
        and "exclusive" not in options
        and (gpus or 0) < 4,  # which may be all of a node
        signal=options.get("signal") or None,
    )


def pbs_grants(text: str, path: str) -> Grants:
    """What `#PBS -l select=2:ncpus=32:ngpus=4` or `-l nodes=2:ppn=32:gpus=4` asks for, on one node."""
    lines = re.findall(r"(?m)^#PBS\s+-l\s+(\S.*)", text[: JOB_LINE.most])
    asked = dict(re.findall(r"\b(\w+)=([\w.]+(?::\d\d)*)", " ".join(lines)))

    def number(*names: str) -> int | None:
        """PBS Professional's name, and Torque's."""
        return whole(next((asked[name] for name in names if name in asked), None))

    gpus = number("ngpus", "gpus")
    cpus = number("ncpus", "ppn")
    origin = say("{origin} in {path}", origin=f"#PBS -l ngpus={gpus}", path=path)
    return Grants(
        gpus_granted=gpus,
        gpus_origin=origin if gpus is not None else "",
        ranks_per_node=number("mpiprocs"),
        nodes=number("select", "nodes"),
        cpus_granted=float(cpus) if cpus else None,
        memory_granted=byte_count(asked.get("mem", ""), binary=True),
        time_limit=slurm_seconds(asked.get("walltime", "")),
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
    on_node = options.get("gpus-per-node")
    if on_node is not None:
        return gres_gpus(on_node), f"--gpus-per-node={on_node}"
    generic = options.get("gres", "")
    if "gpu" in generic:
        return gres_gpus(generic), f"--gres={generic}"
    of_task = options.get("gpus-per-task")
    if of_task is not None:
        each = gres_gpus(of_task)
        on_all = None if each is None else each * (tasks or 1)
        return on_all, f"--gpus-per-task={of_task}"
    of_job = options.get("gpus")
    if of_job is not None:
        every = gres_gpus(of_job)
        share = max(1, every // nodes) if every else every
        return share, f"--gpus={of_job}"
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
    options: dict[str, str] = {}
    origin = ""
    for option, names in launcher_tables()["slurm"]["given"].items():
        name = next((name for name in names.split() if environment.get(name)), "")
        if name:
            options[option] = environment[name]
        if option == "gpus-per-node":
            origin = name
    grants = slurm_grants(options, "")
    # one task that holds several GPUs starts the ranks itself, with torchrun or the like
    one = grants.ranks_per_node == 1 and (grants.gpus_granted or 0) > 1
    return replace(
        grants,
        gpus_origin=origin if grants.gpus_granted is not None else "",
        ranks_per_node=None if one else grants.ranks_per_node,
        preemptible=True if whole(environment.get("SLURM_RESTART_COUNT")) else None,
    )
