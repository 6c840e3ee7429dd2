"""GPU007 occupied."""

from collections.abc import Iterator

from gpudoctor.analysis import of_run
from gpudoctor.analysis.run.steady_run import watched
from gpudoctor.lang import say
from gpudoctor.model import Absent, Check, Code, Finding, Patient, PatientKind, Reads, Resource, Severity, Threshold
from gpudoctor.model.job_devices import CardsDetail, job_gpus, ranks_here
from gpudoctor.model.records import frozen
from gpudoctor.model.signs.gpu import Gpu, GpuProcess, GpuSurvey, name_gpus
from gpudoctor.model.unavailable import known, optional
from gpudoctor.text import size
from gpudoctor_checks.hardware.card_findings import listed, on_cards

_PROHIBITED, _EXCLUSIVE = 2, 3
_MEMORY = frozenset({Resource.DEVICE_MEMORY})
# Helpers of the driver that hold a context by design.
_SERVICES = ("nvidia-cuda-mps", "nv-hostengine", "nvidia-persiste", "dcgm")


@frozen
class OccupiedDetail(CardsDetail):
    """What the rule reads."""

    cause: str
    """`processes`, `unseen`, `compute-mode` or `mig`."""
    pids: str = ""
    """With commas."""
    pids_visible: bool = False
    """The driver names the processes of this machine."""


class Occupied(Check):
    """A GPU is not free for the job: other processes use it, or its mode excludes the job.

    What it finds:
        - Other processes that compute on a GPU.
        - Memory in use by no visible process.
        - Compute mode "prohibited", or "exclusive" with more ranks than GPUs.
        - MIG on while the job expects whole GPUs.
        - A job that died because its GPU was busy or unavailable.
    Why it hurts:
        The memory that others use is missing (an out-of-memory error that no batch size explains). Two programs
        on one GPU take turns, so every step is longer on all ranks.
    How it knows:
        NVML's list of processes, the memory in use, compute mode and MIG mode, before the job starts. From a
        job's log: CUDA's message, in the exception or line that came first. The driver gives the same message
        for a GPU that hangs, so a finding from a log is probable.
    False alarms:
        The job's own processes and desktop programs (X, browsers) do not count. Neither do a small context on a
        display card and GPUs that CUDA_VISIBLE_DEVICES excludes. In a container NVML gives pids of the host,
        which gpudoctor cannot resolve, and the finding mentions this. The check is silent while gpudoctor
        watches a running job from such a container.
    Remedies:
        Use other GPUs of the machine (the finding lists them), or end the other program.
    References:
        - https://github.com/facebookresearch/gcm (15 MiB in use before a job)
        - https://docs.nvidia.com/datacenter/tesla/mig-user-guide/index.html
    """

    code = Code("GPU007")
    name = "occupied"
    reads = frozenset({Reads.ENVIRONMENT, Reads.PROCESS, Reads.LOG})
    log_messages_file = "log_messages.toml"
    thresholds = (
        Threshold("process_memory", 15 * 2**20, "B", "facebookresearch/gcm: 15 MiB",
                  "A foreign process that uses less is not counted."),
        Threshold("desktop_memory", 2**30, "B",
                  "a desktop's compositor and browsers hold some hundred MiB",
                  "The same on a card that drives a display."),
        Threshold("unseen_memory", 2**30, "B",
                  "the driver itself reserves up to some 600 MiB on an H100",
                  "This much memory that belongs to no visible process counts as occupied."),
        Threshold("unseen_share", 0.02, "1",
                  "the driver's reserve grows with the card's memory",
                  "It must also be this share of the card's memory."),
    )  # fmt: skip

    def examine(self, patient: Patient) -> Iterator[Finding]:
        gpus = _of_the_job(patient, job_gpus(patient))
        survey = patient.gpu_survey
        running = patient.kind in {PatientKind.PROCESS, PatientKind.COMMAND}
        held: dict[int, list[GpuProcess]] = {}
        if survey.pids_visible or not running:  # else the job's own processes cannot be told from others
            held = {gpu.index: processes for gpu in gpus if (processes := self._foreign(gpu))}
            yield from self._processes(gpus, held, survey)
            yield from self._unseen([gpu for gpu in gpus if gpu.index not in held])
        ranks = ranks_here(patient)
        yield from self._mode(gpus, held, ranks)
        yield from self._mig(gpus, ranks, patient)

    def _foreign(self, gpu: Gpu) -> list[GpuProcess]:
        processes, desktop = known(gpu.processes) or (), _desktop(gpu)
        drawing = {process.pid for process in processes if process.kind == "graphics"}
        least = self.limit("desktop_memory" if desktop else "process_memory")
        return [
            process
            for process in processes
            if process.kind == "compute"
            and not process.ours
            and process.pid not in drawing
            and not (process.name or "").startswith(_SERVICES)
            and (not desktop if isinstance(process.memory, Absent) else process.memory >= least)
        ]

    def _processes(
        self, gpus: tuple[Gpu, ...], held: dict[int, list[GpuProcess]], survey: GpuSurvey
    ) -> Iterator[Finding]:
        busy = [gpu for gpu in gpus if gpu.index in held]
        if not busy:
            return
        memory = [(gpu, sum(map(_bytes, held[gpu.index]))) for gpu in busy]
        unseen = say(" (pids of the host: gpudoctor cannot look them up in this container)")
        yield on_cards(
            self,
            say(
                "Other processes compute on {subject} of {gpus}{unseen}. {words}.",
                subject=name_gpus(busy),
                gpus=len(gpus),
                unseen="" if survey.pids_visible else unseen,
                words=listed((gpu, map(_describe, held[gpu.index])) for gpu in busy),
            ),
            memory,
            "foreign_memory",
            "B",
            "nvidia-smi -i {} --format=csv --query-compute-apps=pid,name,used_memory",
            scarce=_MEMORY if sum(used for _, used in memory) >= self.limit("unseen_memory") else frozenset(),
            detail=OccupiedDetail,
            cause="processes",
            pids=",".join(map(str, sorted({process.pid for gpu in busy for process in held[gpu.index]}))),
            pids_visible=survey.pids_visible,
        )

    def _unseen(self, gpus: list[Gpu]) -> Iterator[Finding]:
        held = [(gpu, memory) for gpu in gpus if (memory := self._unclaimed(gpu))]
        if held:
            yield on_cards(
                self,
                say(
                    "Memory is in use by no visible process ({words}): another container's process, or one "
                    "that died and left it allocated.",
                    words=listed((gpu, [size(memory)]) for gpu, memory in held),
                ),
                held,
                "unclaimed_memory",
                "B",
                "nvidia-smi -i {} --query-gpu=memory.used,memory.reserved --format=csv",
                scarce=_MEMORY,
                detail=OccupiedDetail,
                cause="unseen",
            )

    def _unclaimed(self, gpu: Gpu) -> int | None:
        used, total, processes = known(gpu.memory_used), known(gpu.memory_total), known(gpu.processes) or ()
        if used is None or total is None or _desktop(gpu) or gpu.mig_enabled is True or gpu.grace:
            return None
        if any(isinstance(process.memory, Absent) for process in processes):
            return None
        rest = used - sum(map(_bytes, processes))
        enough = rest >= self.limit("unseen_memory") and rest >= total * self.limit("unseen_share")
        return rest if enough else None

    def _mode(self, gpus: tuple[Gpu, ...], held: dict[int, list[GpuProcess]], ranks: int) -> Iterator[Finding]:
        crowded = ranks > max(1, len(gpus))
        closed = [(gpu, "prohibited") for gpu in gpus if gpu.compute_mode == _PROHIBITED]
        exclusive = [(gpu, "exclusive process") for gpu in gpus if gpu.compute_mode == _EXCLUSIVE]
        why = (
            say("{ranks} ranks share {gpus} GPUs", ranks=ranks, gpus=len(gpus)) if crowded else say("another one does")
        )
        for rows, words in (
            (closed, say("is set to compute mode prohibited: no program may compute on it")),
            (
                [row for row in exclusive if crowded or row[0].index in held],
                say("is set to compute mode exclusive: one process at a time may compute on it, and ") + why,
            ),
        ):
            if rows:
                yield on_cards(
                    self,
                    say("{subject} {words}.", subject=name_gpus(gpu for gpu, _ in rows), words=words),
                    rows,
                    "compute_mode",
                    "",
                    "nvidia-smi -i {} --query-gpu=compute_mode --format=csv",
                    severity=Severity.ERROR,
                    breaks=say("CUDA refuses to create a context"),
                    detail=OccupiedDetail,
                    cause="compute-mode",
                )

    def _mig(self, gpus: tuple[Gpu, ...], ranks: int, patient: Patient) -> Iterator[Finding]:
        split = [gpu for gpu in gpus if gpu.mig_enabled is True]
        empty = [gpu for gpu in split if gpu.mig_instances == ()]
        cut = [gpu for gpu in split if gpu not in empty]
        environment = optional(lambda: patient.environment)
        if ranks < 2 and environment is not None and "MIG-" in (environment.get("CUDA_VISIBLE_DEVICES") or ""):
            cut = []
        sliced = say("is split by MIG: a process sees one slice of it, not the whole GPU")
        if ranks > 1:
            sliced = say("is split by MIG, and the job has {ranks} ranks here: a rank sees only one slice", ranks=ranks)
        for group, words, severity in (
            (
                empty,
                say("has MIG on and no instance: CUDA finds no device there"),
                Severity.ERROR if len(empty) == len(gpus) else Severity.WARNING,
            ),
            (cut, sliced, Severity.WARNING if ranks > 1 else Severity.NOTE),
        ):
            if group:
                yield on_cards(
                    self,
                    say("{subject} {words}.", subject=name_gpus(group), words=words),
                    [(gpu, "unknown" if (own := known(gpu.mig_instances)) is None else len(own)) for gpu in group],
                    "mig_instances",
                    "{instances}",
                    "nvidia-smi -L",
                    severity=severity,
                    breaks=say("CUDA finds no device") if severity is Severity.ERROR else "",
                    detail=OccupiedDetail,
                    cause="mig",
                )


def _desktop(gpu: Gpu) -> bool:
    drawn = any(item.kind == "graphics" for item in known(gpu.processes) or ())
    return drawn or gpu.display_active is True


def _bytes(process: GpuProcess) -> int:
    return 0 if isinstance(process.memory, Absent) else process.memory


def _describe(process: GpuProcess) -> str:
    name = say(" ({process})", process=process.name) if process.name else ""
    held = "" if isinstance(process.memory, Absent) else say(" uses {memory}", memory=size(process.memory))
    return say("pid {pid}{name}{memory}", pid=process.pid, name=name, memory=held)


def _of_the_job(patient: Patient, gpus: tuple[Gpu, ...]) -> tuple[Gpu, ...]:
    """Of these GPUs those that the watched job holds memory on; all of them where nothing is watched."""
    window = watched(patient)
    if window is None:
        return gpus
    used = {gpu.index for gpu in of_run.job_gpus(window)}
    return tuple(gpu for gpu in gpus if gpu.index in used)
