"""What a job will run on this node, put together from launch line, environment, source and configs.

Shared by checks and rules that hold the machine against the job. What nobody says is None, never a guess.
"""

from gpudoctor.analysis import of_run
from gpudoctor.analysis.run.steady_run import processes
from gpudoctor.analysis.source.device_tensors import Target, training_target
from gpudoctor.analysis.source.environment_assignments import assigned
from gpudoctor.analysis.source.loaders import Loader, every_loader, made_to_train
from gpudoctor.lang import say
from gpudoctor.lang.message import concatenated
from gpudoctor.model.evidence import Evidence
from gpudoctor.model.job_devices import ranks_here, without_gpus
from gpudoctor.model.patient import Patient
from gpudoctor.model.records import frozen, replace
from gpudoctor.model.signs.job import Environment, Launch, Profile
from gpudoctor.model.signs.source import Call, Known, Source
from gpudoctor.model.unavailable import optional as optional
from gpudoctor.text import count


def scripts_given(patient: Patient) -> Source:
    """The source, empty where none was given: a recording of elsewhere has remedies without edits."""
    found = optional(lambda: patient.source)
    return found if found is not None else Source(scripts=())


def loaders_as_run(patient: Patient) -> tuple[Loader, ...]:
    """Every loader of the source; where a run was recorded, with the arguments that it had there.

    A default may be overridden by an option that the source does not show, so the recording goes before it.
    """
    found = every_loader(patient.source)
    return of_run.as_run(patient, found) if processes(patient) else found


def training_loaders(patient: Patient) -> tuple[Loader, ...]:
    """The loaders of programs that train, as they ran; what ran need not be told from the source."""
    found = loaders_as_run(patient)
    return tuple(item for item in found if item.ran is not None or made_to_train(patient.source, item))


@frozen
class Workers:
    """Loader workers of one rank."""

    count: int | None
    """The most that one loader starts; None when nobody says."""
    certain: bool = False
    """Whether it is written in the source or in a config."""
    evidence: tuple[Evidence, ...] = ()
    """The loader's call, or the config's key."""
    loader: Loader | None = None
    """The loader, when it is one in the source."""


@frozen
class Threads:
    """Threads of one rank for operations on the CPU."""

    count: int
    origin: str
    """Where the number comes from, as a clause."""
    by_default: bool
    """True when nobody set it: torch's own default."""
    call: Call | None = None
    """The call of torch.set_num_threads that sets it, where there is just one."""
    recorded: bool = False


def read_workers(patient: Patient) -> Workers:
    """The loader workers that source and configs tell, the greatest of several; a recorded run's go before."""
    known: list[Workers] = []
    untold = False
    source = optional(lambda: patient.source)
    read = loaders_as_run(patient) if source is not None else ()
    for loader in read:
        value = loader.workers
        if isinstance(value, Known) and isinstance(value.value, int) and not isinstance(value.value, bool):
            known.append(Workers(count=max(0, value.value), certain=True, evidence=(loader.call.span,), loader=loader))
        else:
            untold = True
    configs = optional(lambda: patient.configs)
    ran = any(loader.ran for loader in read)
    for meaning in configs.canonical("loader_workers") if configs is not None and not ran else ():
        number = meaning.number
        if number is not None and number >= 0:
            known.append(Workers(count=int(number), certain=True, evidence=(meaning.setting,)))
    most = max(known, key=lambda item: item.count or 0, default=Workers(count=None))
    return Workers(count=None) if untold and not most.count else most


def read_threads(patient: Patient) -> Threads:
    """The CPU threads of one rank; raises `Unavailable` without a host when torch's default is needed.

    Where a run has recorded how many there were, that is their number.
    """
    source = optional(lambda: patient.source)
    scripts = source.scripts if source is not None else ()
    calls = [call for script in scripts for call in script.calls_to("torch.set_num_threads")]
    call = calls[0] if len(calls) == 1 else None
    numbers = [of_run.torch_fact(process, "threads") for process in processes(patient)]
    recorded = max((item for item in numbers if isinstance(item, int)), default=None)
    if recorded is None:
        return replace(_declared_threads(patient, source, calls), call=call)
    declared = optional(lambda: _declared_threads(patient, source, calls))
    if declared is not None and (declared.count == recorded or (declared.by_default and not calls)):
        return replace(declared, count=recorded, call=call, recorded=True)
    origin = "torch.set_num_threads" if call is not None else "recorded"
    return Threads(count=recorded, origin=origin, by_default=False, call=call, recorded=True)


def _declared_threads(patient: Patient, source: Source | None, calls: list[Call]) -> Threads:
    environment, own = optional(lambda: patient.environment), assigned(source, "OMP_NUM_THREADS")
    outside = environment.get("OMP_NUM_THREADS") if environment is not None else None
    text = (outside or "") if own is None or (own.default and outside) else own.value or ""
    text = text.split(",")[0].strip()
    for call in calls:
        value = call.argument("", 0)
        if isinstance(value, Known) and isinstance(value.value, int) and value.value > 0:
            return Threads(count=value.value, origin=f"torch.set_num_threads({value.value})", by_default=False)
    if text.isdigit() and int(text) > 0:
        return Threads(count=int(text), origin=f"OMP_NUM_THREADS={text}", by_default=False)
    job = optional(lambda: patient.job)
    by_torchrun = job is not None and (
        job.profile is Profile.TORCHRUN or any(launch.launcher in {"torchrun", "accelerate"} for launch in job.launches)
    )
    if by_torchrun and ranks_here(patient) > 1:
        return Threads(count=1, origin=say("torchrun sets OMP_NUM_THREADS=1"), by_default=True)
    # torch and MKL count physical cores of the affinity mask and know nothing of a quota; two threads a core.
    count = max(1, patient.host.cpus_affinity // 2)
    return Threads(count=count, origin=say("torch's default for the CPUs that it sees"), by_default=True)


def launch_words(launch: Launch) -> str:
    """A row of the table: `2 nodes x 8 tasks x 8 processes = 128 processes for 16 GPUs`; `?` is unknown."""
    nodes, tasks, cards = launch.nodes, launch.tasks, launch.grants.gpus_granted
    each = launch.ranks_per_node or (1 if launch.launcher == "python" else None)
    unknown = {name: launch.told.get(name) or "?" for name in ("nodes", "tasks", "processes")}
    parts = [count(nodes, "node") if nodes else say("{nodes} nodes", nodes=unknown["nodes"])]
    parts = parts if nodes or "nodes" in launch.told else []
    if launch.starter:
        parts.append(count(tasks, "task") if tasks else say("{tasks} tasks", tasks=unknown["tasks"]))
    parts.append(_ranks(each) if each else say("{processes} processes", processes=unknown["processes"]))
    said, several = concatenated(" x ", parts), len(parts) > 1
    if several and tasks and each and (nodes or "nodes" not in launch.told):
        said = say("{parts} = {total}", parts=said, total=_ranks((nodes or 1) * tasks * each))
    return say("{said} for {cards}", said=said, cards=count(cards * (nodes or 1), "GPU")) if cards else said


def cpus_per_rank(patient: Patient) -> tuple[float, str]:
    """CPUs that one rank may use and where the number comes from; raises `Unavailable` without a host."""
    job = optional(lambda: patient.job)
    ranks = ranks_here(patient)
    if job is not None and job.cpus_granted:
        each, granted = _ranks(ranks), job.cpus_granted
        words = say("{cpus_granted:g} CPUs from the scheduler for {ranks}", cpus_granted=granted, ranks=each)
        return granted / ranks, words
    # What quota and affinity allowed a run, where one was recorded (on whichever machine), else here.
    recorded = optional(lambda: patient.recording.machine_facts.get("cpus"))
    known = isinstance(recorded, int | float) and recorded > 0
    budget = float(recorded) if known and recorded else patient.host.cpu_budget
    return budget / ranks, say("{budget:g} CPUs for {ranks}", budget=budget, ranks=_ranks(ranks))


def _ranks(ranks: int) -> str:
    return say("1 process") if ranks == 1 else say("{ranks} processes", ranks=ranks)


def runs_here(patient: Patient) -> bool:
    """Whether the job runs on the machine examined.

    False for a scheduler's job outside of it, and for a script that launches GPUs, read where there are none.
    """
    job = optional(lambda: patient.job)
    environment = optional(lambda: patient.environment)
    if job is not None and job.profile is Profile.KUBERNETES and job.script_path:
        return False  # a pod that is looked at from another one
    if job is None or environment is None or in_allocation(environment):
        return True
    if job.profile in {Profile.SLURM, Profile.KUBERNETES}:
        return False
    survey, source = optional(lambda: patient.gpu_survey), optional(lambda: patient.source)
    if job.script_path is None or survey is None or not without_gpus(survey):
        return True
    cards = job.gpus_granted or any(row.grants.gpus_granted or row.launcher == "deepspeed" for row in job.launches)
    return not (cards or (source is not None and training_target(source) is Target.CUDA))


def in_allocation(environment: Environment) -> bool:
    """Whether a scheduler has started this process."""
    inside = {"SLURM_JOB_ID", "KUBERNETES_SERVICE_HOST"} & environment.variables.keys()
    return bool(inside - environment.exports.keys())


def has_purpose(patient: Patient) -> bool:
    """Whether anything says that training is meant to run here: a GPU, a job, a script or a config."""
    survey = optional(lambda: patient.gpu_survey)
    if survey is not None and (survey.gpus or survey.pci_devices):
        return True
    job = optional(lambda: patient.job)
    if job is not None and (job.launches or job.gpus_granted or job.script_path or (job.ranks_per_node or 1) > 1):
        return True  # not only the shell's world
    source = optional(lambda: patient.source)
    configs = optional(lambda: patient.configs)
    return bool((source is not None and source.scripts) or (configs is not None and configs.trains))
