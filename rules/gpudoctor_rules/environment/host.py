"""Rules on the environment: the limits of the host, the container and the job, and its variables."""

import shlex
from collections.abc import Iterator

from gpudoctor.analysis.workload import optional
from gpudoctor.lang import say
from gpudoctor.model import Applicability, Effort, Facts, Finding, Patient, Remedy, Resource, Setting, answers
from gpudoctor.model.job_devices import ranks_here
from gpudoctor.model.signs.job import Profile
from gpudoctor.text import count
from gpudoctor_rules.remedies import remedy

_GIB = 1 << 30
_PER_WORKER = _GIB // 4
"""Bytes: two prefetched batches of 128 MiB, a batch of 200 images of 224 x 224 in fp32."""
_USUAL_WORKERS = 4
"""Workers to provide for when nobody says how many there are."""
_DOCKER = "https://docs.docker.com/reference/cli/docker/container/run/"
_KUBERNETES = "https://kubernetes.io/docs/concepts/storage/volumes/#emptydir"


@answers("ENV006")
def shm_too_small(finding: Finding, patient: Patient) -> Iterator[Remedy]:
    """The size to give, and the line that gives it in this kind of container."""
    gib = _shm_size(finding, patient) // _GIB
    host, job = optional(lambda: patient.host), optional(lambda: patient.job)
    kind = host.container if host is not None else None
    if job is not None and job.shared_memory_granted:
        kind = "kubernetes" if job.profile is Profile.KUBERNETES else "docker"
    steps, effort, reference = _shm_lines(kind, gib)
    yield remedy(
        "ENV006-size",
        say("give /dev/shm {gib} GiB", gib=gib),
        *steps,
        effort=effort,
        sets=(("shm_size", f"{gib}g"),),
        uses=frozenset({Resource.HOST_MEMORY}),
        references=(reference,),
    )


def _shm_size(finding: Finding, patient: Patient) -> int:
    """Bytes: what all workers hold ready, a power of two of at least 2 GiB, half the memory at most."""
    detail = finding.detail_of(Facts)
    workers, ranks = detail.workers, detail.ranks or 1
    need = ranks * (workers or _USUAL_WORKERS) * _PER_WORKER
    wanted = 2 * _GIB
    while wanted < need:
        wanted *= 2
    host = optional(lambda: patient.host)
    if host is None:
        return wanted
    half = min(host.memory_total, host.memory_limit or host.memory_total) // 2
    return max(_GIB, min(wanted, half // _GIB * _GIB))


def _shm_lines(kind: str | None, gib: int) -> tuple[tuple[str, ...], Effort, str]:
    """Lines to copy, effort and reference."""
    if kind == "kubernetes":
        return (
            (
                say("volumes: [{{name: shm, emptyDir: {{medium: Memory, sizeLimit: {gib}Gi}}}}]", gib=gib),
                say("volumeMounts: [{{name: shm, mountPath: /dev/shm}}]"),
                say("the volume counts as the pod's memory: its limit has to hold {gib} GiB more", gib=gib),
            ),
            Effort.SETTING,
            _KUBERNETES,
        )
    if kind in {"docker", "podman"}:
        run = say("{kind} run --shm-size={gib}g ...", kind=kind, gib=gib)
        return (run, say("in a compose file: shm_size: {gib}gb", gib=gib)), Effort.SETTING, _DOCKER
    return (
        (
            f"sudo mount -o remount,size={gib}G /dev/shm",
            say("for every boot, in /etc/fstab: tmpfs /dev/shm tmpfs defaults,size={gib}G 0 0", gib=gib),
        ),
        Effort.ADMINISTRATOR,
        "https://man7.org/linux/man-pages/man5/tmpfs.5.html",
    )


_OMP = "https://docs.pytorch.org/docs/stable/threading_environment_variables.html"
_MOST_THREADS = 16
"""More threads a rank have nothing to do while the work is on the GPU."""


_SRUN = "https://slurm.schedmd.com/srun.html#OPT_cpus-per-task"


@answers("ENV007")
def cpu_budget(finding: Finding) -> Iterator[Remedy]:
    """OMP_NUM_THREADS and workers a rank, so that all ranks together fit the CPUs."""
    detail = finding.detail_of(Facts)
    cpus, ranks = detail.cpus or 1, detail.ranks or 1
    workers, threads = detail.workers, detail.threads or 1
    if detail.kind == "srun":
        line = "export SRUN_CPUS_PER_TASK=$SLURM_CPUS_PER_TASK"
        yield remedy("ENV007-srun", line, line, effort=Effort.ONE_LINE, references=(_SRUN,))
        return
    each = max(1, int(cpus / ranks))
    fewer = min(workers, max(1, each - 1)) if workers else 0
    if threads > max(1, each - fewer):
        right = min(_MOST_THREADS, max(1, each - fewer))
        why = say("{cpus:g} CPUs, {ranks} rank(s)", cpus=cpus, ranks=ranks)
        yield remedy(
            "ENV007-threads",
            f"export OMP_NUM_THREADS={right}",
            say("export OMP_NUM_THREADS={threads}   # before the launch line: {why}", threads=right, why=why),
            applicability=Applicability.UNSAFE,
            effort=Effort.ONE_LINE,
            sets=(("OMP_NUM_THREADS", str(right)),),
            override=(("env.OMP_NUM_THREADS", str(right)),),
            references=(_OMP,),
        )
    if fewer < workers:
        yield remedy(
            "ENV007-workers",
            say("set num_workers={fewer} per rank instead of {workers}", fewer=fewer, workers=workers),
            say("num_workers={fewer}: each rank has {cpus} to itself", fewer=fewer, cpus=count(each, "CPU")),
            applicability=Applicability.UNSAFE,
            effort=Effort.ONE_LINE,
            sets=(("DataLoader.num_workers", str(fewer)),),
            override=(("DataLoader.num_workers", str(fewer)),),
            references=("https://pytorch.org/docs/stable/data.html#multi-process-data-loading",),
        )


_FILES = 65536
"""Open files: what NVIDIA's and Ray's containers set; far from what a kernel gives out."""
_CONF = "https://man7.org/linux/man-pages/man5/limits.conf.5.html"
_LIMITS = {"open files": ("-n", "nofile", str(_FILES)), "locked memory": ("-l", "memlock", "unlimited")}
"""The flag of ulimit, the name in limits.conf, and the value to set."""


@answers("ENV008")
def limits_too_low(finding: Finding) -> Iterator[Remedy]:
    """The ulimit line where the hard limit allows it, else what the administrator must set."""
    detail = finding.detail_of(Facts)
    flag, name, text = _LIMITS[detail.kind]
    sets = ((f"RLIMIT_{name.upper()}", text),)
    if detail.hard == -1 or (text.isdigit() and detail.hard >= int(text)):
        line = f"ulimit {flag} {text}"
        step = say("{line}   # in the job script, before the launch line", line=line)
        yield remedy("ENV008-ulimit", line, step, effort=Effort.ONE_LINE, sets=sets)
    else:
        yield remedy(
            "ENV008-limit",
            say("ask the administrator for {name} {text}", name=name, text=text),
            say("in /etc/security/limits.d/training.conf: * - {name} {text}", name=name, text=text),
            say("in a container: --ulimit {name}=VALUE:VALUE; under Slurm, for slurmd too", name=name),
            effort=Effort.ADMINISTRATOR,
            sets=sets,
            references=(_CONF,),
        )


@answers("ENV009")
def host_memory_tight(finding: Finding, patient: Patient) -> Iterator[Remedy]:
    """The memory to ask for, or who takes it."""
    detail = finding.detail_of(Facts)
    if detail.kind == "swap":
        return
    gib = max(1, -(-2 * int(detail.need) // _GIB))  # the data's own share comes on top
    job = optional(lambda: patient.job)
    lines = {
        Profile.SLURM: f"#SBATCH --mem={gib}G",
        Profile.KUBERNETES: say("resources: {{limits: {{memory: {gib}Gi}}, requests: {{memory: {gib}Gi}}}}", gib=gib),
    }
    look = say("ps -eo rss,pid,user,args --sort=-rss | head   # which process uses the memory")
    yield remedy(
        "ENV009-memory",
        say("give the job {gib} GiB of host memory", gib=gib),
        lines.get(job.profile, look) if job is not None else look,
        effort=Effort.SETTING,
        sets=(("host_memory", f"{gib}G"),),
    )


_CLEARED = {
    "Hugging Face cache": (say("hf cache ls   # huggingface-cli scan-cache before version 1"), "HF_HOME"),
    "Hugging Face data sets": (say("du -sh {{path}}/* | sort -h"), "HF_DATASETS_CACHE"),
    "torch extension cache": (say("rm -r {{path}}   # built again at the next use"), "TORCH_EXTENSIONS_DIR"),
    "temporary files": (say("du -xsh {{path}}/* 2>/dev/null | sort -h | tail"), "TMPDIR"),
}
"""A command that shows or clears what is there, and the variable that moves the folder."""


@answers("ENV011")
def disk_too_small(finding: Finding) -> Iterator[Remedy]:
    """Clear the folder, or move it."""
    detail = finding.detail_of(Facts)
    command, variable = _CLEARED.get(detail.role, ("du -xsh {path}/* | sort -h | tail", ""))
    yield remedy(
        "ENV011-clear",
        say("make room under {path}", path=detail.path),
        command.replace("{path}", shlex.quote(detail.path)),
        *((say("or move it to another disk: export {variable}=FOLDER", variable=variable),) if variable else ()),
        effort=Effort.COMMAND,
    )


_ENV = "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html"


@answers("ENV012")
def nccl_hobbled(finding: Finding) -> Iterator[Remedy]:
    """By cause: a variable unset, another path."""
    detail = finding.detail_of(Facts)
    name, library = detail.variable, detail.library
    if detail.kind == "switch":
        yield remedy(
            "ENV012-unset",
            f"unset {name}",
            _deletion(finding, name),
            "hangs without it? look at the paths first: nvidia-smi topo -m; nvidia-smi topo -p2p r",
            applicability=Applicability.SAFE,
            effort=Effort.ONE_LINE,
            sets=((name, ""),),
            references=(_ENV,),
        )
    else:
        folder = library.rpartition("/")[0] or library
        yield remedy(
            "ENV012-loader-path",
            say("take {folder} out of {variable} for the training", folder=folder, variable=name),
            "see which is loaded: LD_DEBUG=libs python -c 'import torch' 2>&1 | grep 'calling init.*nccl'",
            f"env -u {name} python ...",
            effort=Effort.SETTING,
        )


def _deletion(finding: Finding, name: str) -> str:
    """Where to take a variable out: the line that sets it in a script or a config, else the shell."""
    span, setting = finding.span, next((item for item in finding.evidence if isinstance(item, Setting)), None)
    if span is not None:
        return say("delete {path}, line {line}: {statement}", path=span.path, line=span.line, statement=span.text)
    if setting is not None and setting.path is not None:
        where = {"name": name, "setting_path": setting.path, "setting_line": setting.line}
        return say("delete the export of {name} in {setting_path}, line {setting_line}", **where)
    return f"unset {name}"


_VARIABLE = "CUDA_VISIBLE_DEVICES"


@answers("ENV013")
def visible_devices_wrong(finding: Finding, patient: Patient) -> Iterator[Remedy]:
    """The value that names GPUs that are there, or the ranks that they allow."""
    detail = finding.detail_of(Facts)
    kind, gpus = detail.kind, detail.gpus
    if kind == "value":
        ranks = ranks_here(patient)  # all GPUs for a job whose ranks nobody says
        yield _set_devices(max(1, min(ranks, gpus) if ranks > 1 else gpus), gpus, finding)
    elif kind == "ranks":
        if gpus > 0:
            yield remedy(
                "ENV013-ranks",
                say("launch {ranks} on this node", ranks=count(gpus, "rank")),
                say("torchrun --nproc_per_node={gpus} ...   # keep the batch: accumulate more steps", gpus=gpus),
                "srun --ntasks-per-node=1 torchrun ...   # one launcher a node",
                applicability=Applicability.UNSAFE,
                effort=Effort.ONE_LINE,
                sets=(("ranks_per_node", str(gpus)),),
            )
        launched = any(isinstance(item, Setting) and item.key == "launch" for item in finding.evidence)
        if not launched:
            yield _unset_devices(
                say("let every rank have a GPU: unset it, or ask the scheduler for more GPUs"), finding
            )
    elif kind == "granted":
        yield _unset_devices(say("unset it: the scheduler has chosen the GPUs"), finding)


def _set_devices(wanted: int, gpus: int, finding: Finding) -> Remedy:
    value = ",".join(str(index) for index in range(wanted))
    span = finding.span
    place = (
        say("in {path}, line {line}", path=span.path, line=span.line)
        if span is not None
        else say("before the launch line")
    )
    return remedy(
        "ENV013-value",
        f"export CUDA_VISIBLE_DEVICES={value}",
        say(
            "export CUDA_VISIBLE_DEVICES={value}   # {place}; this machine has GPU 0 to {last}"
            if gpus > 1
            else "export CUDA_VISIBLE_DEVICES={value}   # {place}; this machine has GPU 0",
            value=value,
            place=place,
            last=gpus - 1,
        ),
        "or unset CUDA_VISIBLE_DEVICES to use all of them",
        effort=Effort.ONE_LINE,
        sets=(("CUDA_VISIBLE_DEVICES", value),),
    )


def _unset_devices(title: str, finding: Finding) -> Remedy:
    return remedy(
        "ENV013-unset",
        title,
        _deletion(finding, _VARIABLE),
        "nvidia-smi -L",
        effort=Effort.ONE_LINE,
        sets=(("CUDA_VISIBLE_DEVICES", ""),),
    )


@answers("ENV010")
def debug_switch_on(finding: Finding) -> Iterator[Remedy]:
    """Unset it where it was set; a log is worth keeping at a lower level."""
    detail = finding.detail_of(Facts)
    name = detail.variable
    value = "WARN" if name == "NCCL_DEBUG" else ""
    yield remedy(
        "ENV010-unset",
        f"export {name}={value}" if value else f"unset {name}",
        f"export {name}={value}" if value else _deletion(finding, name),
        applicability=Applicability.SAFE,
        effort=Effort.ONE_LINE,
        sets=((name, value),),
        references=(detail.reference,),
    )
