"""Which GPUs of the machine the job will use: shared by the checks and rules of the hardware."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from gpudoctor.model.finding import Cost, Finding
from gpudoctor.model.patient import Patient
from gpudoctor.model.severity import Severity
from gpudoctor.model.signs.gpu import DriverState, Gpu, GpuSurvey, LostGpu
from gpudoctor.model.unavailable import Absent, Unavailable

_VARIABLE = "CUDA_VISIBLE_DEVICES"


def chosen(patient: Patient) -> frozenset[int] | None:
    """Indices that CUDA_VISIBLE_DEVICES leaves to the job; None when it does not choose, or not readably."""
    try:
        value = patient.environment.get(_VARIABLE)
        gpus = patient.gpus
    except Unavailable:
        return None
    entries = [entry.strip() for entry in (value or "").split(",") if entry.strip()]
    indices: set[int] = set()
    for entry in entries:
        if entry.isdigit():
            indices.add(int(entry))
        elif entry.startswith("GPU-"):
            indices |= {gpu.index for gpu in gpus if isinstance(gpu.uuid, str) and gpu.uuid.startswith(entry)}
        else:
            return None  # MIG slices, -1, a typing error: another check's business
    known = {gpu.index for gpu in gpus} | {gpu.index for gpu in patient.gpu_survey.lost}
    return frozenset(indices) if indices and indices <= known else None


def job_gpus(patient: Patient) -> tuple[Gpu, ...]:
    """The GPUs that answer and that the job will use; raises `Unavailable` when none answers."""
    only = chosen(patient)
    return tuple(gpu for gpu in patient.gpus if only is None or gpu.index in only)


def lowest_capability(patient: Patient) -> tuple[int, int] | None:
    """The lowest compute capability among the job's GPUs; None where no GPU tells it."""
    try:
        gpus = job_gpus(patient)
    except Unavailable:
        return None
    known = [gpu.compute_capability for gpu in gpus if not isinstance(gpu.compute_capability, Absent)]
    return min(known) if known else None


def without_gpus(survey: GpuSurvey) -> bool:
    """Whether the machine has no NVIDIA GPU at all; one whose driver fails is another matter."""
    return not (survey.gpus or survey.lost or survey.pci_devices or survey.device_nodes) and survey.driver in (
        DriverState.READY,
        DriverState.NO_LIBRARY,
        DriverState.NOT_LOADED,
    )


def left_out(patient: Patient, gpus: Iterable[Gpu | LostGpu]) -> bool:
    """Whether the job uses none of these GPUs."""
    only = chosen(patient)
    return only is not None and not any(gpu.index in only for gpu in gpus)


def demoted(findings: Iterable[Finding]) -> Iterator[Finding]:
    """Findings about GPUs that the job leaves out: worth knowing, and no harm to this job."""
    for finding in findings:
        yield replace(
            finding,
            severity=Severity.NOTE,
            cost=Cost(),
            message=f"{finding.message} {_VARIABLE} keeps the job off it.",
        )
