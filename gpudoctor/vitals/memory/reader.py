"""The reader of the memory sign: the patient's jobs, the card that they are meant for, the forecast of each."""

import re

from gpudoctor.analysis.run.steady_run import ran_on_cpu
from gpudoctor.analysis.workload import runs_here
from gpudoctor.errors import UsageError
from gpudoctor.estimate import Device, ModelShape, lookup
from gpudoctor.estimate import device as find_device
from gpudoctor.estimate.find import find_cached, find_path, is_path
from gpudoctor.lang import say
from gpudoctor.model import Absent, Patient, Unavailable
from gpudoctor.model.job_devices import ranks_here
from gpudoctor.model.signs.memory import JobMemory
from gpudoctor.model.unavailable import optional
from gpudoctor.vitals.memory.forecast import TargetGpu, forecast
from gpudoctor.vitals.memory.jobs import ToldJob, jobs_of

_TYPED = re.compile(r"(?:gpu[:=])?(?P<name>[a-z][a-z0-9_.-]{0,60})[:=]\d+", re.IGNORECASE)
_FEWEST = 300 * (1 << 20)
"""Bytes below which a card is no card for training (a MIG slice has at least 4 GiB)."""


def read_memory(patient: Patient, gpu: str | None = None, gpus: int | None = None) -> tuple[JobMemory, ...]:
    """The memory of the patient's jobs on the named card, else on this machine's.

    Raises `Unavailable` when no job can be told, no card is known, or the recorded run used
    none, with the reason.
    """
    jobs = jobs_of(patient)
    if not jobs.found:
        raise Unavailable(jobs.reasons[0] if jobs.reasons else say("no config or script describes what is trained"))
    if gpu is None and ran_on_cpu(patient):
        raise Unavailable("the recorded run computed on the CPU: no GPU's memory limits it")
    card = _card(patient, gpu, gpus)
    done: list[JobMemory] = []
    reason = ""
    for job in jobs.found:
        try:
            _world(patient, job)
            _loaded_type(patient, job)
            done.append(forecast(job, _shape(job.told.model or ""), card))
        except UsageError as error:
            reason = str(error)
    if not done:
        raise Unavailable(reason)
    return tuple(done)


def _shape(model: str) -> ModelShape:
    """A model by its folder, the local cache or its name; nothing is fetched. Raises `UsageError`."""
    if is_path(model):
        return find_path(model).shape
    cached = find_cached(model) if "/" in model else None
    if cached is not None:
        return find_path(cached).shape
    found = lookup(model)
    if found.assumption:
        raise UsageError(
            "{model} is not a model that gpudoctor knows exactly ({assumption})",
            model=model,
            assumption=found.assumption,
        )
    return found.preset.shape


def _card(patient: Patient, gpu: str | None, gpus: int | None) -> TargetGpu:
    job = optional(lambda: patient.job)
    granted = gpus or (job.gpus_granted if job is not None else None)
    if gpu is not None:
        return TargetGpu(
            device=find_device(gpu), origin="--gpu", count=granted or ranks_here(patient), counted=bool(granted)
        )
    typed = _TYPED.search(job.gpus_origin) if job is not None else None
    if typed is not None:
        named = _device(typed["name"])
        if named is not None:
            return TargetGpu(
                device=named, origin=job.gpus_origin if job else "", count=granted or 1, counted=bool(granted)
            )
    survey = optional(lambda: patient.gpu_survey)
    if survey is not None and survey.gpus and runs_here(patient):
        sizes = [(item.memory_total, item) for item in survey.gpus if not isinstance(item.memory_total, Absent)]
        if sizes:
            size, least = min(sizes, key=lambda pair: pair[0])
            known = _device(least.name) if isinstance(least.name, str) else None
            capability = known.capability if known is not None else None
            own = Device(name=str(least.name), bytes=size, capability=capability)
            if size >= _FEWEST:
                origin = say("this machine's GPU {index}", index=least.index)
                return TargetGpu(device=own, origin=origin, count=granted or len(sizes), counted=True)
    raise Unavailable("no GPU here to compare the estimate with (name the job's: --gpu H100)")


def _device(name: str) -> Device | None:
    try:
        return find_device(name)
    except UsageError:
        return None


def _world(patient: Patient, job: ToldJob) -> None:
    """Ranks and nodes that the launch line or the scheduler says."""
    sign = optional(lambda: patient.job)
    if sign is None or "gpus" in job.told.fields:
        return
    ranks = max([sign.ranks_per_node or 0, *(launch.ranks_per_node or 0 for launch in sign.launches)])
    nodes = max([sign.nodes or 0, *(launch.nodes or 0 for launch in sign.launches)])
    if ranks > 0:
        job.told.fields["gpus"] = ranks
    if nodes > 0 and ranks > 0:
        job.told.fields["nodes"] = nodes


def _loaded_type(patient: Patient, job: ToldJob) -> None:
    """The type of weights that nobody names: transformers loads in the checkpoint's (16 bits for the models of
    today) from release 5 on, in fp32 before (its migration guide)."""
    told = job.told
    packages = optional(lambda: patient.packages)
    version = packages.version("transformers") if packages is not None else None
    if told.fields.get("method") == "qlora" and (version is None or version.startswith("4.")):
        told.fields["experts_quantized"] = True  # release 5 leaves fused experts alone
    if "dtype" not in told.guessed or version is None:
        return
    told.guessed.discard("dtype")
    mixed = told.fields.get("mixed_precision", "no")
    old = version.split(".", 1)[0].isdigit() and int(version.split(".", 1)[0]) < 5
    told.fields["dtype"] = "fp32" if old and told.fields.get("method", "full") == "full" else "bf16"
    if told.fields["dtype"] != "fp32" and mixed != "no":
        told.fields["dtype"] = mixed
