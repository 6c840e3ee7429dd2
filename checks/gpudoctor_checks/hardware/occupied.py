"""GPU007 occupied."""

from collections.abc import Iterator

from gpudoctor.analysis import of_run
from gpudoctor.analysis.run.steady_run import watched
from gpudoctor.lang import say
from gpudoctor.model import Absent, Check, Finding, Patient, PatientKind, Reads, Resource, Severity, Threshold
from gpudoctor.model.job_devices import job_gpus, ranks_here
from gpudoctor.model.signs.gpu import Gpu, GpuProcess, GpuSurvey, name_gpus
from gpudoctor.model.unavailable import known, optional
from gpudoctor.text import size
from gpudoctor_checks.hardware.card_findings import listed, on_cards

_PROHIBITED, _EXCLUSIVE = 2, 3
_MEMORY = Resource.DEVICE_MEMORY
# Helpers of the driver that hold a context by design.
_SERVICES = ("nvidia-cuda-mps", "nv-hostengine", "nvidia-persiste", "dcgm")


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

    code = "GPU007"
    reads = frozenset({Reads.ENVIRONMENT, Reads.PROCESS, Reads.LOG})
    log_messages_file = "log_messages.toml"
    thresholds = (
        Threshold("process_memory", 15 * 2**20, "B", "facebookresearch/gcm: 15 MiB",
                  "A foreign process that uses less is not counted."),
        Threshold("desktop_memory", 2**30, "B",
                  "a desktop's compositor and browsers hold some hundred MiB",
                  "The same on a card that drives a display."),
        Threshold("unseen_memory", 2**32, "B",
                  "the driver's own reserve grows with the card's memory, to 3 GiB on the largest",
                  "This much memory that belongs to no visible process counts as occupied."),
    )  # fmt: skip

    def examine(self, patient: Patient) -> Iterator[Finding]:
        gpus, survey, ranks = job_gpus(patient), patient.gpu_survey, ranks_here(patient)
        if (window := watched(patient)) is not None:
            used = {gpu.index for gpu in of_run.job_gpus(window)}
            gpus = tuple(gpu for gpu in gpus if gpu.index in used)
        running = patient.kind in {PatientKind.PROCESS, PatientKind.COMMAND}
        held: dict[int, list[GpuProcess]] = {}
        if survey.pids_visible or not running:  # else the job's own processes cannot be told from others
            held = {gpu.index: processes for gpu in gpus if (processes := self._foreign(gpu))}
            yield from self._processes([gpu for gpu in gpus if gpu.index in held], held, survey)
            yield from self._unseen([gpu for gpu in gpus if gpu.index not in held])
        yield from self._mode(gpus, held, ranks)
        yield from self._mig(gpus, ranks, patient)

    def _foreign(self, gpu: Gpu) -> list[GpuProcess]:
        processes = known(gpu.processes) or ()
        drawing = {process.pid for process in processes if process.kind == "graphics"}
        desktop = _desktop(gpu)
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

    def _processes(self, busy: list[Gpu], held: dict[int, list[GpuProcess]], survey: GpuSurvey) -> Iterator[Finding]:
        if not busy:
            return
        memory = [(gpu, sum(known(process.memory) or 0 for process in held[gpu.index])) for gpu in busy]
        unseen = say(" (pids of the host: gpudoctor cannot look them up in this container)")
        yield on_cards(
            self,
            say(
                "Other processes compute on {subject}{unseen}. {words}.",
                subject=name_gpus(busy),
                unseen="" if survey.pids_visible else unseen,
                words=listed((gpu, map(_describe, held[gpu.index])) for gpu in busy),
            ),
            memory,
            "foreign_memory",
            "B",
            "nvidia-smi -i {} --format=csv --query-compute-apps=pid,name,used_memory",
            scarce=_MEMORY if sum(used for _, used in memory) >= self.limit("desktop_memory") else None,
            cause="processes",
            pids=",".join(map(str, sorted({process.pid for gpu in busy for process in held[gpu.index]}))),
            pids_visible=survey.pids_visible,
        )

    def _unseen(self, gpus: list[Gpu]) -> Iterator[Finding]:
        held: list[tuple[Gpu, int]] = []
        for gpu in gpus:
            memory = [known(process.memory) for process in known(gpu.processes) or ()]
            rest = (known(gpu.memory_used) or 0) - sum(item or 0 for item in memory)
            # The memory of Grace has the host's pages too; a desktop's and a split card's processes are not all told.
            unclear = None in memory or _desktop(gpu) or gpu.mig_enabled is True or gpu.grace
            if not unclear and rest >= self.limit("unseen_memory"):
                held.append((gpu, rest))
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
                cause="unseen",
            )

    def _mode(self, gpus: tuple[Gpu, ...], held: dict[int, list[GpuProcess]], ranks: int) -> Iterator[Finding]:
        crowded = ranks > max(1, len(gpus))
        closed = [gpu for gpu in gpus if gpu.compute_mode == _PROHIBITED]
        taken = [gpu for gpu in gpus if gpu.compute_mode == _EXCLUSIVE and (crowded or gpu.index in held)]
        one = say("is set to compute mode exclusive: one process may compute on it, and the job has to share it")
        for group, words in (
            (closed, say("is set to compute mode prohibited: no program may compute on it")),
            (taken, one),
        ):
            if group:
                yield on_cards(
                    self,
                    say("{subject} {words}.", subject=name_gpus(group), words=words),
                    [(gpu, known(gpu.compute_mode) or 0) for gpu in group],
                    "compute_mode",
                    "",
                    "nvidia-smi -i {} --query-gpu=compute_mode --format=csv",
                    severity=Severity.ERROR,
                    breaks=say("CUDA refuses to create a context"),
                    cause="compute-mode",
                )

    def _mig(self, gpus: tuple[Gpu, ...], ranks: int, patient: Patient) -> Iterator[Finding]:
        environment = optional(lambda: patient.environment)
        chosen = environment is not None and "MIG-" in (environment.get("CUDA_VISIBLE_DEVICES") or "")
        split = [] if chosen else [gpu for gpu in gpus if gpu.mig_enabled is True]
        if split:
            yield on_cards(
                self,
                say(
                    "{subject} is split by MIG: a process sees one slice of it, not the whole GPU.",
                    subject=name_gpus(split),
                ),
                [(gpu, len(known(gpu.mig_instances) or ())) for gpu in split],
                "mig_instances",
                "{instances}",
                "nvidia-smi -L",
                severity=Severity.WARNING if ranks > 1 else Severity.NOTE,
                cause="mig",
            )


def _desktop(gpu: Gpu) -> bool:
    drawn = any(item.kind == "graphics" for item in known(gpu.processes) or ())
    return drawn or gpu.display_active is True


def _describe(process: GpuProcess) -> str:
    name = say(" ({process})", process=process.name) if process.name else ""
    held = "" if isinstance(process.memory, Absent) else say(" uses {memory}", memory=size(process.memory))
    return say("pid {pid}{name}{memory}", pid=process.pid, name=name, memory=held)
