"""ENV013 visible-devices-wrong."""

from collections.abc import Iterator
from dataclasses import dataclass

from gpudoctor.analysis.source.environment_assignments import assigned
from gpudoctor.analysis.workload import in_allocation, optional, runs_here
from gpudoctor.lang import say
from gpudoctor.model import Check, Code, Confidence, Cost, Detail, Finding, Patient, Reads, Severity
from gpudoctor.model.evidence import Evidence, Measurement, Provenance
from gpudoctor.model.job_devices import VARIABLE, ranks_here, seen_with, without_gpus
from gpudoctor.model.signs.gpu import GpuSurvey
from gpudoctor.model.signs.job import Job
from gpudoctor.model.unavailable import Unavailable
from gpudoctor.model.visible_devices import Visible, entries
from gpudoctor.text import count

_FLAG = "--gpus"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Given:
    """The variable's value and where it was read."""

    value: str
    evidence: Evidence
    where: str
    """`environment`, `job script` or `source`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asks:
    """What says that a job has GPUs."""

    words: str
    """A clause."""
    gpus: int
    certain: bool
    """Whether it is said of this machine, and not of whichever machine will run a script."""
    evidence: tuple[Evidence, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class VisibleDevicesWrongDetail(Detail):
    """What the rule reads."""

    kind: str
    """`missing`, `value`, `ranks` or `granted`."""
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
        - Fewer visible (or granted) GPUs than ranks on the node.
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
        given = self._given(patient)
        if optional(lambda: patient.source) is None and optional(lambda: patient.job) is None:
            patient.signs.environment.take()  # nothing else can name GPUs: without it there is nothing to judge
        survey = optional(lambda: patient.gpu_survey)
        here = runs_here(patient) and survey is not None and bool(survey.gpus)
        seen = Visible(count=-1)
        if survey is not None and without_gpus(survey) and runs_here(patient):
            yield from self._missing(patient, given, survey)
            return
        if survey is not None and here:
            seen = seen_with(patient, given.value) if given is not None else Visible(count=len(survey.gpus))
            if given is not None and seen.fault:
                yield self._faulty(given, seen, survey)
        else:
            job = optional(lambda: patient.job)
            if job is None or ranks_here(patient) < 2 or (given is None and not job.gpus_granted):
                raise Unavailable(survey.absence if survey is not None else say("the GPUs were not examined"))
            if given is not None:
                seen = Visible(count=entries(given.value))
        yield from self._too_few(patient, given, seen, survey if here else None)

    def _missing(self, patient: Patient, given: _Given | None, survey: GpuSurvey) -> Iterator[Finding]:
        """The machine has no GPU: what says that the job is to have some."""
        torch, asks = optional(lambda: patient.torch), _asks(patient, given)
        # torch for GPUs of another maker reads the same variable
        if asks is None or (torch is not None and torch.hip is not None):
            raise Unavailable(survey.absence)
        yield self.finding(
            say("{asks}, and this machine has no GPU.", asks=asks.words),
            evidence=(*asks.evidence, Measurement("gpus_found", 0, "{GPUs}", reproduce="nvidia-smi -L")),
            confidence=Confidence.CONFIRMED if asks.certain else Confidence.SUSPECTED,
            cost=Cost(breaks=say("CUDA does not start: the job dies, or trains on the CPU")),
            subject="missing GPUs",
            detail=VisibleDevicesWrongDetail(kind="missing", gpus=0, visible=0, asked=asks.gpus),
        )

    def _given(self, patient: Patient) -> _Given | None:
        environment, source = optional(lambda: patient.environment), optional(lambda: patient.source)
        own = assigned(source, VARIABLE)
        outside = environment.get(VARIABLE) if environment is not None else None
        if own is not None and own.value is not None and not (own.default and outside is not None):
            return _Given(value=own.value, evidence=own.span, where="source")
        if environment is None or outside is None:
            return None
        where = say("job script") if VARIABLE in environment.exports else "environment"
        return _Given(value=outside, evidence=environment.evidence(VARIABLE), where=where)

    def _faulty(self, given: _Given, seen: Visible, survey: GpuSurvey) -> Finding:
        there = len(survey.gpus)
        left = (
            say("no GPU")
            if seen.count == 0
            else say("{count} of {gpus} listed", count=seen.count, gpus=count(seen.listed, "GPU"))
        )
        return self.finding(
            say(
                "{variable}={given!r} {fault}: CUDA sees {left}, and the driver lists {gpus}.",
                variable=VARIABLE,
                given=given.value,
                fault=seen.fault,
                left=left,
                gpus=count(there, "GPU"),
            ),
            evidence=(given.evidence, Measurement("gpus_listed", there, "{GPUs}", reproduce="nvidia-smi -L")),
            confidence=Confidence.SUSPECTED if given.where == "source" else Confidence.CONFIRMED,
            cost=Cost(
                breaks=say("CUDA sees no GPU") if seen.count == 0 else say("the job sees fewer GPUs than it was given")
            ),
            subject=VARIABLE,
            detail=VisibleDevicesWrongDetail(kind="value", gpus=there, visible=seen.count),
        )

    def _too_few(
        self, patient: Patient, given: _Given | None, seen: Visible, survey: GpuSurvey | None
    ) -> Iterator[Finding]:
        """Ranks against GPUs, and GPUs seen against GPUs granted."""
        job = optional(lambda: patient.job)
        if job is None or seen.fault:
            return
        ranks, granted = ranks_here(patient), job.gpus_granted
        visible, words = (
            seen.count,
            say("{variable} leaves", variable=VARIABLE) if given is not None else say("the driver lists"),
        )
        evidence: list[Evidence] = [given.evidence] if given is not None else []
        if survey is None and granted and (visible < 0 or granted < visible):
            visible, words = (granted, say("{gpus_origin} grants", gpus_origin=job.gpus_origin or say("the scheduler")))
        if survey is not None:
            evidence.append(Measurement("gpus_visible", visible, "{GPUs}", reproduce="nvidia-smi -L"))
        elif granted:
            evidence.append(Measurement("gpus_granted", granted, "{GPUs}", provenance=Provenance.DECLARED))
        if 0 <= visible < ranks and ranks > 1 and evidence:
            yield self.finding(
                say(
                    "{ranks} ranks are launched on this node, and {words} {gpus}.",
                    ranks=ranks,
                    words=words,
                    gpus=count(visible, "GPU"),
                ),
                evidence=tuple(evidence),
                confidence=Confidence.CONFIRMED if survey is not None else Confidence.SUSPECTED,
                cost=Cost(breaks=say("ranks without their own GPU die or share one")),
                subject="ranks",
                detail=VisibleDevicesWrongDetail(kind="ranks", gpus=visible, visible=visible),
            )
        elif survey is not None and granted and visible < granted and self._granted_here(patient, job):
            yield self.finding(
                say(
                    "{origin} {gpus}, and {words} {visible}.",
                    origin=_origin(job),
                    gpus=count(granted, "GPU"),
                    words=words,
                    visible=visible,
                ),
                evidence=tuple(evidence),
                confidence=Confidence.CONFIRMED,
                cost=Cost(breaks=say("the job sees fewer GPUs than it was granted")),
                subject="granted GPUs",
                detail=VisibleDevicesWrongDetail(kind="granted", gpus=granted, visible=visible),
            )

    def _granted_here(self, patient: Patient, job: Job) -> bool:
        environment = optional(lambda: patient.environment)
        return job.gpus_origin == _FLAG or (environment is not None and in_allocation(environment))


def _asks(patient: Patient, given: _Given | None) -> _Asks | None:
    """What says that the job has GPUs on this machine; None where nothing does."""
    job = optional(lambda: patient.job)
    if job is not None and job.card is not None:
        return None  # for another machine: the user names its card
    named = entries(given.value) if given is not None and given.where != "source" else 0
    if given is not None and named:
        return _Asks(
            words=say(
                "{variable}={given!r} names {gpus}", variable=VARIABLE, given=given.value, gpus=count(named, "GPU")
            ),
            gpus=named,
            certain=given.where == "environment",
            evidence=(given.evidence,),
        )
    if job is None or not job.gpus_granted:
        return None
    return _Asks(
        words=say("{origin} {gpus}", origin=_origin(job), gpus=count(job.gpus_granted, "GPU")),
        gpus=job.gpus_granted,
        certain=True,
        evidence=(Measurement("gpus_granted", job.gpus_granted, "{GPUs}", provenance=Provenance.DECLARED),),
    )


def _origin(job: Job) -> str:
    """Who speaks of GPUs, with the verb."""
    if job.gpus_origin == _FLAG:
        return say("{flag} says that the job has", flag=_FLAG)
    return say("{gpus_origin} grants", gpus_origin=job.gpus_origin or say("The scheduler"))
