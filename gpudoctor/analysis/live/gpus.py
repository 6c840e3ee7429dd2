"""The GPUs of a watched job over the window: GPU001, GPU002, GPU004, and strangers on them."""

from collections.abc import Mapping
from dataclasses import dataclass

from gpudoctor.analysis.live.stack_shares import ENOUGH, job_gpus, watched
from gpudoctor.model.evidence import Measurement
from gpudoctor.model.patient import Patient
from gpudoctor.model.signs.gpu import Gpu
from gpudoctor.model.signs.process import GpuWindow, ProcessWindow
from gpudoctor.model.unavailable import Unavailable
from gpudoctor.text import percent

CAUSES = {
    "data_wait": "waiting for data", "sync": "reading values", "logging": "logging", "checkpoint": "saving",
    "evaluation": "evaluating", "profiler": "profiling", "collective": "waiting for other ranks",
    "compile": "compiling", "start": "starting up",
}  # fmt: skip
"""Phases of the host that leave a device idle."""
_EXPLAINS = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """How busy the job's GPUs are."""

    busy: float
    gpus: tuple[GpuWindow, ...]
    causes: tuple[str, ...]
    """What the host does meanwhile: `waiting for data (58 %)`."""


def use(window: ProcessWindow) -> Use:
    """The busy share over the window; raises `Unavailable` without GPUs or readings enough."""
    gpus = tuple(gpu for gpu in job_gpus(window) if len(gpu.activity.known()) >= ENOUGH)
    if not gpus:
        raise Unavailable(f"no {ENOUGH} readings of a GPU that the job uses")
    total = window.samples
    shares = {phase: window.phases.get(phase, 0) / total for phase in CAUSES} if total >= ENOUGH else {}
    named = sorted(((share, phase) for phase, share in shares.items() if share >= _EXPLAINS), reverse=True)
    return Use(
        busy=sum(gpu.activity.mean for gpu in gpus) / len(gpus),
        gpus=gpus,
        causes=tuple(f"{CAUSES[phase]} ({percent(share)})" for share, phase in named),
    )


def held_down(window: ProcessWindow, mask: int) -> Mapping[int, tuple[int, float]]:
    """GPU index to the bad reasons that held its clocks down, and the share of the window of the worst one."""
    found = {}
    for gpu in job_gpus(window) or window.gpus:
        bad = {bit: share for bit, share in gpu.reasons.items() if bit & mask}
        if bad:
            found[gpu.index] = (sum(bad), max(bad.values()))
    return found


def busy_evidence(found: Use) -> tuple[Measurement, ...]:
    """The busy shares as evidence."""
    how = "nvidia-smi dmon -s u"
    return (
        Measurement(name="gpu_busy_share", value=round(found.busy, 4), unit="1", reproduce=how),
        *(
            Measurement(
                name=f"gpu{gpu.index}_busy_share", value=round(gpu.activity.mean, 4), unit="1", reproduce=how
            )
            for gpu in found.gpus[:8]
        ),
    )


def held_by_job(patient: Patient, gpus: tuple[Gpu, ...]) -> tuple[Gpu, ...]:
    """Of these GPUs those that the watched job holds memory on; all of them where nothing is watched."""
    window = watched(patient)
    if window is None:
        return gpus
    used = {gpu.index for gpu in job_gpus(window)}
    return tuple(gpu for gpu in gpus if gpu.index in used)
