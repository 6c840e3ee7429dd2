"""ENV013 visible-devices-wrong."""

from collections.abc import Iterator

from gpudoctor.analysis.workload import in_allocation, optional, runs_here
from gpudoctor.lang import say
from gpudoctor.model import Check, Code, Confidence, Cost, Detail, Finding, Patient, Reads, Severity, Unavailable
from gpudoctor.model.evidence import Evidence, Measurement, Provenance
from gpudoctor.model.job_devices import VARIABLE, ranks_here, seen_with, without_gpus
from gpudoctor.model.records import frozen
from gpudoctor.model.signs.gpu import GpuSurvey
from gpudoctor.model.signs.job import Job
from gpudoctor.model.visible_devices import Visible, entries
from gpudoctor.text import count
from gpudoctor_checks.environment.launch_faults import launch_faults
from gpudoctor_checks.environment.variables import Given, given

_FLAG = "--gpus"


@frozen
class VisibleDevicesWrongDetail(Detail):
    """What the rule reads."""

    kind: str
    """`missing`, `value`, `ranks`, `granted` or a kind of conflicts.json."""
    gpus: int
    """GPUs that can be used."""
    visible: int
    """GPUs that the variable leaves."""
    asked: int = 0
    """GPUs that the job asks for."""


class VisibleDevicesWrong(Check):
    """CUDA_VISIBLE_DEVICES hides the GPUs that the job needs, or the machine has fewer than the job asks for.

    What it finds:
        - A CUDA_VISIBLE_DEVICES that is empty or -1 although a GPU is there.
        - Entries that name no GPU of this machine, are not a number or come twice.
        - A launch with more processes than GPUs, or with idle GPUs, by the job's own description.
        - Ranks that are never started, a rendezvous on localhost, directives that the scheduler does not read.
        - A machine without a GPU, or with fewer than the job asks for (CUDA_VISIBLE_DEVICES, `--gpus`, a
          scheduler's grant, several ranks).
    Why it hurts:
        CUDA stops reading at the first entry that names no GPU, without a message. It sees nothing at all if
        one entry comes twice. Training falls back to the CPU or to fewer GPUs. A rank without a GPU dies with
        "invalid device ordinal".
    How it knows:
        The variable in this shell, the job script or the script, read as CUDA and torch read it. gpudoctor
        compares it with the GPUs that the driver lists. Ranks and granted GPUs from the launch line and the
        scheduler. From a job's log: the messages that name it, in the exception or line that came first.
    False alarms:
        Hiding every GPU on purpose for a run on the CPU. Several ranks that share a GPU on purpose (MPS). A
        scheduler's job script that is read outside its allocation is compared only with what it requests. A
        launch line for another machine: name that machine's card with `--gpu`.
    Remedies:
        Set the right value, change the number of ranks, or use a machine that has the GPUs.
    References:
        - https://docs.nvidia.com/cuda/cuda-c-programming-guide/#environment-variables
        - https://github.com/pytorch/pytorch/blob/main/torch/cuda/__init__.py (_parse_visible_devices)
    """

    code = Code("ENV013")
    name = "visible-devices-wrong"
    reads = frozenset({Reads.ENVIRONMENT, Reads.CONFIG, Reads.SOURCE, Reads.LOG})
    severity = Severity.ERROR
    log_messages_file = "log_messages.toml"

    def examine(self, patient: Patient) -> Iterator[Finding]:
        value = given(patient, VARIABLE)
        job = optional(lambda: patient.job)
        if optional(lambda: patient.source) is None and job is None:
            patient.signs.environment.take()  # nothing else can name GPUs: without it there is nothing to judge
        survey = optional(lambda: patient.gpu_survey)
        described = list(self._described(patient, job)) if job is not None else []
        yield from described
        if described:
            return
        if survey is not None and without_gpus(survey) and runs_here(patient):
            yield from self._missing(patient, value, job, survey)
            return
        if survey is None or not survey.gpus or not runs_here(patient):
            raise Unavailable(survey.absence if survey is not None else say("the GPUs were not examined"))
        seen = seen_with(patient, value.value) if value is not None else Visible(count=len(survey.gpus))
        if value is not None and seen.fault:
            yield self._faulty(value, seen, len(survey.gpus))
        elif job is not None:
            yield from self._too_few(patient, value, seen.count, job)

    def _described(self, patient: Patient, job: Job) -> Iterator[Finding]:
        """What does not fit in the job's own description, wherever it is read."""
        found = launch_faults(job, optional(lambda: patient.source))
        for fault in {item.text: item for item in found}.values():
            yield self.finding(
                fault.text,
                evidence=(fault.place,),
                severity=Severity.ERROR if fault.breaks else Severity.WARNING,
                confidence=Confidence.PROBABLE,
                cost=Cost(breaks=fault.breaks or None),
                subject=f"{fault.place.path}:{fault.place.line} {fault.kind}",
                detail=VisibleDevicesWrongDetail(kind=fault.kind, gpus=fault.gpus, visible=fault.gpus),
            )

    def _missing(self, patient: Patient, value: Given | None, job: Job | None, survey: GpuSurvey) -> Iterator[Finding]:
        """The machine has no GPU: what says that the job is to have some."""
        torch = optional(lambda: patient.torch)
        elsewhere = job is not None and job.card is not None  # for another machine: the user names its card
        asked = entries(value.value) if value is not None and value.where != "source" else 0
        granted = job.gpus_granted if job is not None else None
        # torch for GPUs of another maker reads the same variable
        if elsewhere or not (asked or granted) or (torch is not None and torch.hip is not None):
            raise Unavailable(survey.absence)
        gpus = count(asked or granted or 0, "GPU")
        certain = True
        evidence: Evidence = Measurement("gpus_granted", granted or 0, "{GPUs}", provenance=Provenance.DECLARED)
        words = say("{origin} {gpus}", origin=_origin(job), gpus=gpus) if job is not None else gpus
        if value is not None and asked:
            words = say("{variable}={given!r} names {gpus}", variable=VARIABLE, given=value.value, gpus=gpus)
            certain = value.where == "environment"
            evidence = value.evidence
        yield self.finding(
            say("{asks}, and this machine has no GPU.", asks=words),
            evidence=(evidence, Measurement("gpus_found", 0, "{GPUs}", reproduce="nvidia-smi -L")),
            confidence=Confidence.CONFIRMED if certain else Confidence.SUSPECTED,
            cost=Cost(breaks=say("CUDA does not start: the job dies, or trains on the CPU")),
            subject="missing GPUs",
            detail=VisibleDevicesWrongDetail(kind="missing", gpus=0, visible=0, asked=asked or granted or 0),
        )

    def _faulty(self, value: Given, seen: Visible, there: int) -> Finding:
        left = say("{count} of {gpus} listed", count=seen.count, gpus=count(seen.listed, "GPU"))
        breaks = say("the job sees fewer GPUs than it was given")
        if seen.count == 0:
            left = say("no GPU")
            breaks = say("CUDA sees no GPU")
        named = {
            "variable": VARIABLE,
            "given": value.value,
            "fault": seen.fault,
            "left": left,
            "gpus": count(there, "GPU"),
        }
        return self.finding(
            say("{variable}={given!r} {fault}: CUDA sees {left}, and the driver lists {gpus}.", **named),
            evidence=(value.evidence, Measurement("gpus_listed", there, "{GPUs}", reproduce="nvidia-smi -L")),
            confidence=Confidence.SUSPECTED if value.where == "source" else Confidence.CONFIRMED,
            cost=Cost(breaks=breaks),
            subject=VARIABLE,
            detail=VisibleDevicesWrongDetail(kind="value", gpus=there, visible=seen.count),
        )

    def _too_few(self, patient: Patient, value: Given | None, visible: int, job: Job) -> Iterator[Finding]:
        """Ranks against GPUs, and GPUs seen against GPUs granted."""
        ranks = ranks_here(patient)
        granted = job.gpus_granted
        words = say("{variable} leaves", variable=VARIABLE) if value is not None else say("the driver lists")
        if visible < ranks and ranks > 1:
            numbers = {"ranks": ranks, "words": words, "gpus": count(visible, "GPU")}
            message = say("{ranks} ranks are launched on this node, and {words} {gpus}.", **numbers)
            kind = subject = "ranks"
            gpus = visible
            breaks = say("ranks without their own GPU die or share one")
        elif granted and visible < granted and _granted_here(patient, job):
            message = say(
                "{origin} {gpus}, and {words} {visible}.",
                origin=_origin(job),
                gpus=count(granted, "GPU"),
                words=words,
                visible=visible,
            )
            kind = "granted"
            gpus = granted
            subject = "granted GPUs"
            breaks = say("the job sees fewer GPUs than it was granted")
        else:
            return
        shown = Measurement("gpus_visible", visible, "{GPUs}", reproduce="nvidia-smi -L")
        yield self.finding(
            message,
            evidence=(*([value.evidence] if value is not None else []), shown),
            confidence=Confidence.CONFIRMED,
            cost=Cost(breaks=breaks),
            subject=subject,
            detail=VisibleDevicesWrongDetail(kind=kind, gpus=gpus, visible=visible),
        )


def _granted_here(patient: Patient, job: Job) -> bool:
    environment = optional(lambda: patient.environment)
    return job.gpus_origin == _FLAG or (environment is not None and in_allocation(environment))


def _origin(job: Job) -> str:
    """Who speaks of GPUs, with the verb."""
    if job.gpus_origin == _FLAG:
        return say("{flag} says that the job has", flag=_FLAG)
    return say("{gpus_origin} grants", gpus_origin=job.gpus_origin or say("The scheduler"))
