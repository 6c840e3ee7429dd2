"""What a job uses of the machine: its GPUs, and the CPUs and memory of each rank."""

from collections.abc import Iterable, Iterator, Mapping

from gpudoctor.lang import say
from gpudoctor.model.evidence import Measurement
from gpudoctor.model.finding import Cost, Facts, Finding, Severity
from gpudoctor.model.patient import Patient
from gpudoctor.model.records import replace
from gpudoctor.model.signs.gpu import DriverState, Gpu, GpuSurvey, LostGpu
from gpudoctor.model.unavailable import Unavailable, known, optional
from gpudoctor.model.visible_devices import ListedGpu, UnknownCards, Visible, visible

# What one rank may use of the machine: shared by checks and rules that count loader workers and threads.


def ranks_here(patient: Patient) -> int:
    """Training processes on this node: what the scheduler or the launch line says, else 1."""
    job = optional(lambda: patient.job)
    if job is None:
        return 1
    return max([job.ranks_per_node or 1, *(launch.here or 1 for launch in job.launches if launch.trains)])


# The detail of findings about graphics cards.


class CardsDetail(Facts):
    """Which cards a finding is about: `gpus` has their numbers, with commas; "" where none of this machine is meant."""

    def placeholders(self) -> Mapping[str, object]:
        """The values, and how a remedy names the cards."""
        return {**vars(self), "gpu": f"GPU {self.gpus}" if self.gpus else say("the GPU")}


def each_card(
    name: str, values: Iterable[tuple[Gpu | LostGpu, float | int | str | bool]], unit: str, command: str
) -> tuple[Measurement, ...]:
    """One reading of each card; `{}` in the command stands for the card's number."""
    return tuple(
        Measurement(f"gpu{gpu.index}_{name}", value, unit, reproduce=command.format(gpu.index)) for gpu, value in values
    )


VARIABLE, ORDER = "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"


def seen_with(patient: Patient, value: str | None) -> Visible:
    """What CUDA sees of this machine's GPUs with a value of CUDA_VISIBLE_DEVICES; None: not set.

    Raises `Unavailable` where the GPUs were not examined or do not tell what the value asks for.
    """
    survey = patient.gpu_survey
    cards = [ListedGpu(index=gpu.index) for gpu in survey.lost]
    for gpu in survey.gpus:
        mig = known(gpu.mig_instances) or ()
        cards.append(ListedGpu(index=gpu.index, name=gpu.name, uuid=known(gpu.uuid), mig=mig))
    order = optional(lambda: patient.environment.get(ORDER))
    try:
        return visible(value, order, sorted(cards, key=lambda card: card.index))
    except UnknownCards as error:
        raise Unavailable(str(error)) from error


def chosen(patient: Patient) -> frozenset[int] | None:
    """Indices that CUDA_VISIBLE_DEVICES leaves to the job; None when it does not choose, or not readably."""
    try:
        value = patient.environment.get(VARIABLE)
        seen = seen_with(patient, value)
    except Unavailable:
        return None
    if value is None or seen.fault or not seen.indices:  # what is wrong with a value is another check's business
        return None
    return frozenset(seen.indices)


def job_gpus(patient: Patient) -> tuple[Gpu, ...]:
    """The GPUs that answer and that the job will use; raises `Unavailable` when none answers."""
    gpus, only = patient.gpus, chosen(patient)
    return tuple(gpu for gpu in gpus if only is None or gpu.index in only)


def lowest_capability(patient: Patient) -> float | None:
    """The lowest compute capability among the job's GPUs: of the card that it is for, else of this machine's."""
    job = optional(lambda: patient.job)
    if job is not None and job.capability:
        return job.capability
    told = [known(gpu.compute_capability) for gpu in optional(lambda: job_gpus(patient)) or ()]
    return min((one[0] + one[1] / 10 for one in told if one is not None), default=None)


def without_gpus(survey: GpuSurvey) -> bool:
    """Whether the machine has no NVIDIA GPU at all; one whose driver fails is another matter."""
    well = (DriverState.READY, DriverState.NO_LIBRARY, DriverState.NOT_LOADED)
    return not (survey.gpus or survey.lost or survey.pci_devices or survey.device_nodes) and survey.driver in well


def left_out(patient: Patient, gpus: Iterable[Gpu | LostGpu]) -> bool:
    """Whether the job uses none of these GPUs."""
    only = chosen(patient)
    return only is not None and not any(gpu.index in only for gpu in gpus)


def demoted(findings: Iterable[Finding]) -> Iterator[Finding]:
    """Findings about GPUs that the job leaves out: worth knowing, and no harm to this job."""
    for finding in findings:
        message = say("{message} {variable} keeps the job off it.", message=finding.message, variable=VARIABLE)
        yield replace(finding, severity=Severity.NOTE, cost=Cost(), message=message)
