"""ENV013 visible-devices-wrong."""

from collections.abc import Iterator

from gpudoctor.analysis.workload import in_allocation, optional, runs_here
from gpudoctor.lang import say
from gpudoctor.model import Check, Confidence, Facts, Finding, Patient, Reads, Severity, Unavailable
from gpudoctor.model.evidence import Measurement
from gpudoctor.model.job_devices import VARIABLE, ranks_here, seen_with, without_gpus
from gpudoctor.model.signs.gpu import GpuSurvey
from gpudoctor.model.signs.job import Job
from gpudoctor.model.visible_devices import Visible, entries
from gpudoctor.text import count
from gpudoctor_checks.environment.launch_faults import late_devices, launch_faults
from gpudoctor_checks.environment.variables import Given, given

_FLAG = "--gpus"


class VisibleDevicesWrong(Check):
    """CUDA_VISIBLE_DEVICES hides the GPUs that the job needs, or the machine has fewer than the job asks for.

    What it finds:
        - A CUDA_VISIBLE_DEVICES that is empty or -1 although a GPU is there.
        - Entries that name no GPU of this machine, are not a number or come twice.
        - By the job's own description: processes, GPUs, ranks, nodes, ports or times that do not fit together.
        - Output in a folder that ends with the job; directives that the scheduler does not read.
        - A machine without a GPU, or with fewer than the job asks for (CUDA_VISIBLE_DEVICES, `--gpus`, a
          scheduler's grant, several ranks).
    Why it hurts:
        CUDA stops reading at the first entry that names no GPU, without a message. It sees nothing at all if
        one entry comes twice. Training falls back to the CPU or to fewer GPUs. A rank without a GPU dies with
        "invalid device ordinal".
    How it knows:
        The variable in this shell, the job script or the script, read as CUDA and torch read it. gpudoctor
        compares it with the GPUs that the driver lists. Ranks and granted GPUs from the launch line and the
        scheduler.
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

    code = "ENV013"
    reads = frozenset({Reads.ENVIRONMENT, Reads.CONFIG, Reads.SOURCE, Reads.LOG})
    severity = Severity.ERROR
    log_messages_file = "log_messages.toml"

    def examine(self, patient: Patient) -> Iterator[Finding]:
        value = given(patient, VARIABLE)
        job = optional(lambda: patient.job)
        if optional(lambda: patient.source) is None and job is None:
            patient.signs.environment.take()  # nothing else can name GPUs: without it there is nothing to judge
        survey = optional(lambda: patient.gpu_survey)
        described = list(self._described(patient, job))
        yield from described
        if described:
            return
        if survey is not None and without_gpus(survey) and runs_here(patient):
            yield self._missing(patient, value, job, survey)
        elif survey is None or not survey.gpus or not runs_here(patient):
            raise Unavailable(survey.absence if survey is not None else say("the GPUs were not examined"))
        else:
            seen = seen_with(patient, value.value) if value is not None else Visible(count=len(survey.gpus))
            if value is not None and seen.fault:
                yield self._faulty(value, seen, len(survey.gpus))
            elif job is not None:
                yield from self._too_few(patient, value, seen.count, job)

    def _described(self, patient: Patient, job: Job | None) -> Iterator[Finding]:
        """What does not fit in the job's own description, wherever it is read."""
        source = optional(lambda: patient.source)
        configs = optional(lambda: patient.configs)
        found = list(launch_faults(job, source, configs)) if job is not None else []
        found += late_devices(source) if source is not None else ()
        for fault in {item.text: item for item in found}.values():
            yield self.finding(
                fault.text,
                evidence=(fault.place,),
                severity=Severity.ERROR if fault.breaks else Severity.WARNING,
                confidence=Confidence.PROBABLE,
                breaks=fault.breaks,
                subject=f"{fault.place.path}:{fault.place.line} {fault.kind}",
                detail=Facts(kind=fault.kind, gpus=fault.gpus, visible=fault.gpus),
            )

    def _missing(self, patient: Patient, value: Given | None, job: Job | None, survey: GpuSurvey) -> Finding:
        """The machine has no GPU: what says that the job is to have some."""
        torch = optional(lambda: patient.torch)
        elsewhere = job is not None and job.card is not None  # for another machine: the user names its card
        named = entries(value.value) if value is not None and value.where == "environment" else 0
        asked = named or (job.gpus_granted if job is not None else 0) or 0
        # torch for GPUs of another maker reads the same variable
        if elsewhere or not asked or (torch is not None and torch.hip is not None):
            raise Unavailable(survey.absence)
        return self._fewer(
            say("The job is to have {gpus}, and this machine has no GPU.", gpus=count(asked, "GPU")),
            "missing",
            say("CUDA does not start: the job dies, or trains on the CPU"),
            value,
            0,
            asked,
        )

    def _faulty(self, value: Given, seen: Visible, there: int) -> Finding:
        named = {"variable": VARIABLE, "given": value.value, "fault": seen.fault}
        gpus, left = count(there, "GPU"), count(seen.count, "GPU")
        message = say("{variable}={given!r} {fault}: CUDA sees {left} of {gpus}.", **named, left=left, gpus=gpus)
        breaks = say("the job sees fewer GPUs than it was given")
        return self._fewer(message, "value", breaks, value, seen.count, there)

    def _too_few(self, patient: Patient, value: Given | None, visible: int, job: Job) -> Iterator[Finding]:
        """Ranks against GPUs, and GPUs seen against GPUs granted."""
        ranks, granted = ranks_here(patient), job.gpus_granted or 0
        environment = optional(lambda: patient.environment)
        here = job.gpus_origin == _FLAG or (environment is not None and in_allocation(environment))
        if visible < ranks and ranks > 1:
            words = say("{ranks} ranks are launched on this node", ranks=ranks)
            breaks = say("ranks without their own GPU die or share one")
            kind, gpus = "ranks", visible
        elif visible < granted and here:
            words = say("The job was granted {gpus}", gpus=count(granted, "GPU"))
            breaks = say("the job sees fewer GPUs than it was granted")
            kind, gpus = "granted", granted
        else:
            return
        message = say("{words}, and it sees {gpus}.", words=words, gpus=count(visible, "GPU"))
        yield self._fewer(message, kind, breaks, value, visible, gpus)

    def _fewer(self, message: str, kind: str, breaks: str, value: Given | None, visible: int, gpus: int) -> Finding:
        shown = Measurement("gpus_visible", visible, "{GPUs}", reproduce="nvidia-smi -L")
        return self.finding(
            message,
            evidence=(*([value.evidence] if value is not None else []), shown),
            confidence=Confidence.SUSPECTED if value is not None and value.where == "source" else Confidence.CONFIRMED,
            breaks=breaks,
            subject=kind,
            detail=Facts(kind=kind, gpus=gpus, visible=visible),
        )
