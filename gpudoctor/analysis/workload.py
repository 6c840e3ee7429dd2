"""What a job will run on this node, put together from launch line, environment, source and configs.

Shared by checks and rules that hold the machine against the job. What nobody says is None, never a guess.
"""

from collections.abc import Iterator

from gpudoctor.analysis import of_run
from gpudoctor.analysis.run.steady_run import processes
from gpudoctor.analysis.source.device_tensors import Target, training_target
from gpudoctor.analysis.source.environment_assignments import assigned
from gpudoctor.analysis.source.loaders import Loader, every_loader, made_to_train
from gpudoctor.lang import say, template
from gpudoctor.lang.message import concatenated
from gpudoctor.model.evidence import Evidence
from gpudoctor.model.job_devices import ranks_here, without_gpus
from gpudoctor.model.patient import Patient
from gpudoctor.model.records import frozen, replace
from gpudoctor.model.signs.job import Environment, Job, Launch, Profile
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
    source = optional(lambda: patient.source)
    loaders = loaders_as_run(patient) if source is not None else ()
    known: list[Workers] = []
    untold = False
    for loader in loaders:
        value = loader.workers.value if isinstance(loader.workers, Known) else None
        if isinstance(value, int) and not isinstance(value, bool):
            known.append(Workers(count=max(0, value), certain=True, evidence=(loader.call.span,), loader=loader))
        else:
            untold = True
    if not any(loader.ran for loader in loaders):
        known += _configured_workers(patient)
    nobody_says = Workers(count=None)
    most = max(known, key=lambda item: item.count or 0, default=nobody_says)
    if untold and not most.count:
        return nobody_says
    return most


def _configured_workers(patient: Patient) -> Iterator[Workers]:
    """The loader workers that configs tell."""
    configs = optional(lambda: patient.configs)
    if configs is None:
        return
    for meaning in configs.canonical("loader_workers"):
        number = meaning.number
        if number is not None and number >= 0:
            yield Workers(count=int(number), certain=True, evidence=(meaning.setting,))


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
    if declared is not None:
        by_default = declared.by_default and not calls
        if by_default or declared.count == recorded:
            return replace(declared, count=recorded, call=call, recorded=True)
    origin = "torch.set_num_threads" if call is not None else "recorded"
    return Threads(count=recorded, origin=origin, by_default=False, call=call, recorded=True)


def _declared_threads(patient: Patient, source: Source | None, calls: list[Call]) -> Threads:
    """What a call, else a variable sets, else what the launcher or torch does when nobody sets it."""
    for call in calls:
        argument = call.argument("", 0)
        value = argument.value if isinstance(argument, Known) else None
        if isinstance(value, int) and value > 0:
            return Threads(count=value, origin=f"torch.set_num_threads({value})", by_default=False)
    text = _omp_threads(patient, source)
    if text.isdigit() and int(text) > 0:
        return Threads(count=int(text), origin=f"OMP_NUM_THREADS={text}", by_default=False)
    job = optional(lambda: patient.job)
    if job is not None and _by_torchrun(job) and ranks_here(patient) > 1:
        return Threads(count=1, origin=say("torchrun sets OMP_NUM_THREADS=1"), by_default=True)
    # torch and MKL count physical cores of the affinity mask and know nothing of a quota; two threads a core.
    count = max(1, patient.host.cpus_affinity // 2)
    return Threads(count=count, origin=say("torch's default for the CPUs that it sees"), by_default=True)


def _omp_threads(patient: Patient, source: Source | None) -> str:
    """What `OMP_NUM_THREADS` says for the outermost level; "" where it is not set."""
    environment = optional(lambda: patient.environment)
    outside = environment.get("OMP_NUM_THREADS") if environment is not None else None
    own = assigned(source, "OMP_NUM_THREADS")
    # `setdefault` in the program gives way to the environment.
    if own is None or (own.default and outside):
        text = outside
    else:
        text = own.value
    return (text or "").split(",")[0].strip()


def _by_torchrun(job: Job) -> bool:
    """Whether torchrun starts the ranks, or what starts them as it does."""
    launchers = {launch.launcher for launch in job.launches}
    return job.profile is Profile.TORCHRUN or not launchers.isdisjoint({"torchrun", "accelerate"})


def launch_words(launch: Launch) -> str:
    """A row of the table: `2 nodes x 8 tasks x 8 processes = 128 processes for 16 GPUs`; `?` is unknown."""
    nodes, tasks = launch.nodes, launch.tasks
    each = launch.ranks_per_node or (1 if launch.launcher == "python" else None)
    several_nodes = "nodes" in launch.told
    parts: list[str] = []
    if nodes:
        parts.append(count(nodes, "node"))
    elif several_nodes:
        parts.append(say("{nodes} nodes", nodes=launch.told["nodes"] or "?"))
    if launch.starter and tasks:
        parts.append(count(tasks, "task"))
    elif launch.starter:
        parts.append(say("{tasks} tasks", tasks=launch.told.get("tasks") or "?"))
    if each:
        parts.append(_ranks(each))
    else:
        parts.append(say("{processes} processes", processes=launch.told.get("processes") or "?"))
    said = concatenated(" x ", parts)
    nodes_known = nodes or not several_nodes
    if nodes_known and tasks and each and len(parts) > 1:
        total = (nodes or 1) * tasks * each
        said = say("{parts} = {total}", parts=said, total=_ranks(total))
    cards = launch.grants.gpus_granted
    if not cards:
        return said
    return say("{said} for {cards}", said=said, cards=count(cards * (nodes or 1), "GPU"))


def cpus_per_rank(patient: Patient) -> tuple[float, str]:
    """CPUs that one rank may use and where the number comes from; raises `Unavailable` without a host."""
    job = optional(lambda: patient.job)
    ranks = ranks_here(patient)
    if job is not None and job.cpus_granted:
        granted = job.cpus_granted
        text = template("{cpus_granted:g} CPUs from the scheduler for {ranks}")
        return granted / ranks, say(text, cpus_granted=granted, ranks=_ranks(ranks))
    # What quota and affinity allowed a run, where one was recorded (on whichever machine), else here.
    recorded = optional(lambda: patient.recording.machine_facts.get("cpus"))
    if isinstance(recorded, int | float) and recorded > 0:
        budget = float(recorded)
    else:
        budget = patient.host.cpu_budget
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
    survey = optional(lambda: patient.gpu_survey)
    if survey is None or not without_gpus(survey):
        return True
    if job.card is not None:
        return False  # the user names its card, which is not here
    launches = job.launches
    several = any((item.here or 1) > 1 or item.launcher == "deepspeed" for item in launches)
    cards = job.gpus_granted or any(item.grants.gpus_granted for item in launches)
    if job.script_path is None or not (several or cards):
        return True
    source = optional(lambda: patient.source)
    return source is not None and training_target(source) in {Target.CPU, Target.NONE}


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
    if job is not None:
        several = (job.ranks_per_node or 1) > 1
        if several or job.launches or job.gpus_granted or job.script_path:
            return True  # not only the shell's world
    source = optional(lambda: patient.source)
    if source is not None and source.scripts:
        return True
    configs = optional(lambda: patient.configs)
    return configs is not None and configs.trains
