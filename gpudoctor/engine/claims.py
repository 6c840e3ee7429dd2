"""What must have been seen before a verdict says that something is well: one table for every command.

"Healthy" means examined and found well. A claim is a sentence of that kind. Its needs say what it requires, and
each says in a clause what is missing where it is not met: a verdict then says that clause instead.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from gpudoctor.analysis.saved_gpus import not_held
from gpudoctor.analysis.source.device_tensors import Target, training_target
from gpudoctor.analysis.workload import runs_here
from gpudoctor.lang import say
from gpudoctor.lang.message import concatenated
from gpudoctor.model import Crashed, Outcome, Passed, Patient, PatientKind, Ranked, Severity, Skipped
from gpudoctor.model.comparison import Change, Ratio
from gpudoctor.model.proof import TrialRow
from gpudoctor.model.run import RunSummary
from gpudoctor.model.signs.process import ProcessWindow
from gpudoctor.model.signs.recording import Recording
from gpudoctor.model.unavailable import optional
from gpudoctor.text import count, joined, percent

T = TypeVar("T")

FEWEST_STEPS = 20
"""Steady steps below which the speed of a run is not judged."""
UNEXPLAINED = 1.18
"""A bound above this with no finding to explain it is not health: 15 % of the time, what PERF014 notes."""
MUCH = 0.15
"""Share of the time from which on a note is worth naming in the verdict."""
FEWEST_COMPARED = 8
"""Steady steps below which two runs are not compared."""
FEWEST_SAMPLES = 30
"""Stack samples below which nothing is said about shares of time."""
TO_GAIN = 0.15
"""Share of a watched job's time outside computation from which on it is not called well."""
PRICED = (
    "data_wait",
    "transfer",
    "sync",
    "logging",
    "checkpoint",
    "evaluation",
    "profiler",
    "collective",
    "compile",
)
"""Phases of a watched job that a cure could take away; the rest is the work itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Need(Generic[T]):
    """One thing that must have been seen."""

    name: str
    missing: Callable[[T], str]
    """What is missing, as a clause; "" where nothing is."""
    gap: bool = True
    """Whether what is missing is a gap in the examination; what the user left out is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim(Generic[T]):
    """A sentence that calls something well."""

    name: str
    commands: tuple[str, ...]
    """Commands that can say it."""
    says: str
    """What the sentence begins with or holds, and no other sentence does."""
    needs: tuple[Need[T], ...]

    def lacks(self, case: T) -> list[str]:
        """What is missing for it, a clause for each need."""
        return [clause for need in self.needs if (clause := need.missing(case))]


@dataclass(frozen=True, slots=True, kw_only=True)
class Examined:
    """An examination without a run."""

    patient: Patient
    outcomes: Sequence[Outcome]
    notes: int = 0
    incomplete: bool = False
    """Whether a file could not be read, or a reader failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """An examination of a run."""

    recording: Recording
    run: RunSummary
    bound: float
    """What the largest loss can give back at most, as a factor."""
    died: bool = False
    ranked: Sequence[Ranked] = ()
    outcomes: Sequence[Outcome] = field(default_factory=tuple)


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedRuns:
    """Two runs side by side."""

    time: Ratio | None
    """Time a step or a sample, the second run over the first; None where one run is too short."""
    change: Change
    jobs: Sequence[str] = ()
    """What makes them two jobs, a clause each."""
    crowds: Sequence[str] = ()
    """What other processes took beside them, a clause each."""


def _crashed(case: Examined | Ran) -> str:
    number = sum(isinstance(item, Crashed) for item in case.outcomes)
    return say("{checks} crashed", checks=count(number, "check")) if number else ""


def _nothing_passed(case: Examined) -> str:
    if case.notes or any(isinstance(item, Passed) for item in case.outcomes):
        return ""
    return say("nothing could be examined")


def _deselected(case: Examined | Ran) -> str:
    number = sum(isinstance(item, Skipped) and item.deselected and not item.held for item in case.outcomes)
    if not number:
        return ""
    return (
        say("{checks} were not selected", checks=count(number, "check"))
        if number > 1
        else say("1 check was not selected")
    )


def nothing_read(patient: Patient) -> bool:
    """Whether files were named of which none was read: logs, or what no reader opens."""
    job = optional(lambda: patient.job)
    signs = (patient.signs.source, patient.signs.configs)
    return (
        patient.kind is PatientKind.SCRIPT
        and all(optional(sign.take) is None for sign in signs)
        and (job is None or job.script_path is None)
    )


def why_unread(patient: Patient) -> str:
    """Why the first of the named files was not read, where none was: a sentence; "" where one was."""
    job = optional(lambda: patient.job)
    source, configs = optional(patient.signs.source.take), optional(patient.signs.configs.take)
    read = (source is not None and source.scripts) or (configs is not None and configs.files)
    sentences = [sentence for sign in (source, configs) if sign is not None for _, sentence in sign.unread]
    named = job is not None and job.script_path is not None
    if patient.kind is not PatientKind.SCRIPT or read or named or not sentences:
        return ""
    more = len(sentences) - 1
    return sentences[0] + (say(" ({files} more)", files=count(more, "file")) if more else "")


def _unread(case: Examined) -> str:
    return say("a part of it could not be examined") if case.incomplete else ""


def _no_gpu(case: Examined) -> str:
    survey = optional(lambda: case.patient.gpu_survey)
    if survey is None:
        return say("the GPUs were not examined")
    return "" if survey.gpus else say("no GPU was examined ({absence})", absence=survey.absence)


def _no_training(case: Examined) -> str:
    source = optional(lambda: case.patient.source)
    configs = optional(lambda: case.patient.configs)
    found = (source is not None and source.trains) or (configs is not None and configs.trains)
    return "" if found else say("no training was found in it")


def _elsewhere(case: Examined) -> str:
    """A job of GPUs that this machine does not have, or that runs on another one."""
    job = optional(lambda: case.patient.job)
    survey = optional(lambda: case.patient.gpu_survey)
    if job is not None and not runs_here(case.patient):
        return say("it runs on another machine, which was not examined")
    if survey is not None and survey.gpus:
        return ""
    if job is not None and job.card is not None:
        return say("its card ({card}) was not examined", card=job.card)
    source = optional(lambda: case.patient.source)
    if (job is not None and job.gpus_granted) or (
        source is not None and training_target(source) is Target.CUDA
    ):
        why = say(" ({absence})", absence=survey.absence) if survey is not None else ""
        return say("its GPUs were not examined{why}", why=why)
    return ""


def _ranks_lost(case: Examined) -> str:
    preflight = optional(lambda: case.patient.preflight)
    if preflight is None:
        return say("nothing was measured")
    lost = len({loss.rank for loss in preflight.losses})
    return (
        say("{ranks} of {world} did not take part to the end", ranks=count(lost, "rank"), world=preflight.world)
        if lost
        else ""
    )


def _units_unmeasured(case: Examined) -> str:
    preflight = optional(lambda: case.patient.preflight)
    if preflight is None:
        return ""
    measured = {unit.node for unit in preflight.units if unit.figures and not unit.failure}
    missing = len(preflight.nodes) - len(measured)
    return (
        say(
            "{nodes} of {all_nodes} gave no figure",
            nodes=count(missing, "node"),
            all_nodes=len(preflight.nodes),
        )
        if missing
        else ""
    )


def _file_cut(case: Examined) -> str:
    log = optional(lambda: case.patient.kernel_log)
    return say("the part that could be read has no Xid event") if log is not None and log.problems else ""


def _xid_unseen(case: Examined) -> str:
    looked = any(isinstance(item, Passed) and not item.silenced for item in case.outcomes)
    return "" if looked else say("no check passed")


def _gpus_unlisted(case: Examined) -> str:
    survey = optional(lambda: case.patient.gpu_survey)
    if survey is None or not survey.unlisted:
        return ""
    listed = len(survey.gpus) + len(survey.lost)
    return say("the file lists {listed} of {total} GPUs", listed=listed, total=listed + survey.unlisted)


def _readings_missing(case: Examined) -> str:
    survey = optional(lambda: case.patient.gpu_survey)
    missing = not_held(survey, needed=True) if survey is not None else []
    return say("the file does not contain {missing}", missing=joined(missing)) if missing else ""


def _severe(case: Ran) -> str:
    severe = sum(item.finding.severity is not Severity.NOTE for item in case.ranked)
    return say("{findings} above a note", findings=count(severe, "finding")) if severe else ""


def _dear_note(case: Ran) -> str:
    notes = [item.finding for item in case.ranked if item.finding.severity is Severity.NOTE]
    share = max((finding.cost.share or 0.0 for finding in notes), default=0.0)
    return say("a note is about {share} of the time", share=percent(share)) if share >= MUCH else ""


def _ended_badly(case: Ran) -> str:
    return say("it did not end well") if case.died else ""


def _few_steps(case: Ran) -> str:
    if case.run.steady_steps >= FEWEST_STEPS:
        return ""
    return say("it made only {steps}", steps=count(case.run.steady_steps, "steady step"))


def _unexplained(case: Ran) -> str:
    if case.bound <= UNEXPLAINED:
        return ""
    return say("{bound} of its time is not computation", bound=percent(1 - 1 / case.bound))


def _ranks_unseen(case: Ran) -> str:
    starts = [process.first("start") for process in case.recording.ranks]
    worlds = [start.get("world") for start in starts if start is not None]
    world = max((size for size in worlds if isinstance(size, int)), default=0)
    seen = len({process.rank for process in case.recording.ranks})
    return say("{seen} of its {world} ranks were seen", seen=seen, world=world) if seen < world else ""


def _device_unseen(case: Ran) -> str:
    from gpudoctor.analysis.run.job_facts import on_gpu

    used = any(on_gpu(process) for process in case.recording.ranks)
    if used and not case.run.gpus and case.recording.origin == "gpudoctor":
        return say("its GPU was not sampled")
    return say("what its device did was not seen") if case.run.gain_unknown else ""


def _few_samples(window: ProcessWindow) -> str:
    if window.samples >= FEWEST_SAMPLES:
        return ""
    return say(
        "{samples} of {fewest_samples} stack samples so far",
        samples=window.samples,
        fewest_samples=FEWEST_SAMPLES,
    )


def share_lost(window: ProcessWindow) -> float:
    """Share of a watched job's samples in phases that a cure could take away; 0 without a sample."""
    return sum(window.phases.get(phase, 0) for phase in PRICED) / max(1, window.samples)


def _time_lost(window: ProcessWindow) -> str:
    lost = share_lost(window)
    return say("{lost} of its time is not computation", lost=percent(lost)) if lost >= TO_GAIN else ""


def _gpus_unread(window: ProcessWindow) -> str:
    # Without a fix there is no GPU here, and nothing to read.
    gap = next((gap for gap in window.gaps if gap.panel == "gpu" and gap.fix), None)
    return say("the GPUs were not read: {reason}", reason=gap.reason) if gap is not None else ""


def _too_short(case: ComparedRuns) -> str:
    return (
        say("a run made fewer than {fewest_compared} steady steps", fewest_compared=FEWEST_COMPARED)
        if case.time is None
        else ""
    )


def _no_difference(case: ComparedRuns) -> str:
    return "" if case.change in (Change.FASTER, Change.SLOWER) else say("the difference may be chance")


def _two_jobs(case: ComparedRuns) -> str:
    return say("they are two jobs: {jobs}", jobs=concatenated("; ", case.jobs)) if case.jobs else ""


def _crowded(case: ComparedRuns) -> str:
    return (
        say("other processes used {crowds}, and no CPU was idle", crowds=concatenated(" and ", case.crowds))
        if case.crowds
        else ""
    )


def _not_faster(row: TrialRow) -> str:
    faster = row.proof is not None and row.proof.verdict == "faster"
    return "" if faster else say("it was not faster at every look")


def _loss_moved(row: TrialRow) -> str:
    return say("its loss is different") if row.proof is not None and row.proof.loss == "moved" else ""


def _not_gone(row: TrialRow) -> str:
    cure = row.proof.cure if row.proof is not None else None
    return "" if cure is not None and cure.gone else say("the finding came back, or its check did not run")


SELECTED: Need[Examined] = Need(name="no check was left out", missing=_deselected, gap=False)
CRASHED: Need[Examined] = Need(name="no check crashed", missing=_crashed)
PASSED = Need(name="a check passed", missing=_nothing_passed)
READ = Need(name="every file that was named was read", missing=_unread)
GPUS = Need(name="a GPU of this machine answered", missing=_no_gpu)
TRAINING = Need(name="a training was found in the files", missing=_no_training)
PLACE = Need(name="the job's GPUs, if it requests any, are here", missing=_elsewhere)

MACHINE_HEALTHY = Claim(
    name="machine-healthy",
    commands=("check",),
    says=say("This machine looks healthy"),
    needs=(CRASHED, PASSED, SELECTED, READ, GPUS),
)
JOB_HEALTHY = Claim(
    name="job-healthy",
    commands=("check",),
    says=say("looks healthy"),
    needs=(CRASHED, PASSED, SELECTED, READ, TRAINING, PLACE),
)
CLUSTER_HEALTHY = Claim(
    name="cluster-healthy",
    commands=("preflight",),
    says=say("units passed"),
    needs=(
        CRASHED,
        PASSED,
        Need(name="nothing was left unmeasured", missing=_unread),
        Need(name="every rank took part to the end", missing=_ranks_lost),
        Need(name="a unit of each node was measured", missing=_units_unmeasured),
    ),
)
NO_XID = Claim(
    name="no-xid",
    commands=("report",),
    says=say("and no Xid event"),
    needs=(
        Need(name="a check passed that looks for Xid events", missing=_xid_unseen),
        Need(name="the whole log was read", missing=_file_cut),
    ),
)
SAVED_GPUS_WELL = Claim(
    name="saved-gpus-well",
    commands=("report",),
    says=say("Nothing is wrong with"),
    needs=(
        CRASHED,
        PASSED,
        SELECTED,
        Need(name="the file lists a GPU that answered", missing=_no_gpu),
        Need(name="the file lists every GPU", missing=_gpus_unlisted),
        Need(name="the file has errors, clocks, temperatures, power and link", missing=_readings_missing),
    ),
)
SELECTED_RUN: Need[Ran] = Need(name="no check was left out", missing=_deselected, gap=False)
CRASHED_RUN: Need[Ran] = Need(name="no check crashed", missing=_crashed)
STEPS = Need(name=say("{fewest_steps} steady steps", fewest_steps=FEWEST_STEPS), missing=_few_steps)
RANKS = Need(name="every rank reported", missing=_ranks_unseen)
DEVICE = Need(name="its GPU, if it uses one, was sampled", missing=_device_unseen)
RUN_HEALTHY: Claim[Ran] = Claim(
    name="run-healthy",
    commands=("run", "report", "verify"),
    says=say("In good health"),
    needs=(
        Need(name="it ended well", missing=_ended_badly),
        Need(name="no finding is above a note", missing=_severe),
        CRASHED_RUN,
        SELECTED_RUN,
        STEPS,
        Need(name="its time is computation, or a finding explains the rest", missing=_unexplained),
        RANKS,
        DEVICE,
    ),
)
REST_WELL: Claim[Ran] = Claim(
    name="rest-well",
    commands=("run", "report", "verify"),
    says=say("no other finding is worth your time"),
    needs=(
        CRASHED_RUN,
        SELECTED_RUN,
        STEPS,
        Need(name=say("no note is about {much} of the time or more", much=percent(MUCH)), missing=_dear_note),
        RANKS,
        DEVICE,
    ),
)
SAMPLES = Need(name=say("{fewest_samples} stack samples", fewest_samples=FEWEST_SAMPLES), missing=_few_samples)
WATCHED_GPUS = Need(name="the GPUs were read, if there are any", missing=_gpus_unread)
WATCH_WELL: Claim[ProcessWindow] = Claim(
    name="watch-well",
    commands=("watch",),
    says=say("Nothing wrong was found"),
    needs=(
        SAMPLES,
        Need(name="most of its time is computation", missing=_time_lost),
        WATCHED_GPUS,
    ),
)
OTHER_SPEED: Claim[ComparedRuns] = Claim(
    name="other-speed",
    commands=("compare",),
    says=say("The second run is"),
    needs=(
        Need(
            name=say("{fewest_compared} steady steps of each run", fewest_compared=FEWEST_COMPARED),
            missing=_too_short,
        ),
        Need(name="an interval of the ratio without 1, and a change above 1 %", missing=_no_difference),
        Need(name="one job: script, model, ranks and kind of step agree", missing=_two_jobs),
        Need(name="other processes left a CPU idle during both", missing=_crowded),
    ),
)
PROVEN: Claim[TrialRow] = Claim(
    name="proven",
    commands=("verify",),
    says=say("Proven: "),
    needs=(
        Need(name="pairs of runs whose interval is above 1 for all looks", missing=_not_faster),
        Need(name="the loss did not change, if one was seen", missing=_loss_moved),
    ),
)
CURED: Claim[TrialRow] = Claim(
    name="cured",
    commands=("verify",),
    says=say("Cured: "),
    needs=(
        Need(name="a run with the remedy in which the ailment was looked for and is gone", missing=_not_gone),
    ),
)
CLAIMS = (
    MACHINE_HEALTHY, JOB_HEALTHY, CLUSTER_HEALTHY, NO_XID, SAVED_GPUS_WELL, RUN_HEALTHY, REST_WELL, WATCH_WELL,
    OTHER_SPEED, PROVEN, CURED
)  # fmt: skip
"""Every sentence that calls something well, better or cured, of every command."""


def health(case: Examined) -> Claim[Examined]:
    """The claim that an examination without a run can make."""
    kinds = {PatientKind.MACHINE: MACHINE_HEALTHY, PatientKind.CLUSTER: CLUSTER_HEALTHY}
    return kinds.get(case.patient.kind, JOB_HEALTHY)


def unexamined(case: Examined | Ran | ProcessWindow) -> tuple[str, ...]:
    """What was not seen and must have been for a claim of health, a clause each."""
    if isinstance(case, Ran):
        return tuple(clause for need in (CRASHED_RUN, STEPS, RANKS, DEVICE) if (clause := need.missing(case)))
    if isinstance(case, ProcessWindow):
        return tuple(clause for need in (SAMPLES, WATCHED_GPUS) if (clause := need.missing(case)))
    claim = _claim(case.patient)
    needs = claim.needs if claim is not None else ()
    return tuple(clause for need in needs if need.gap and (clause := need.missing(case)))


def _claim(patient: Patient) -> Claim[Examined] | None:
    """The claim that an examination can make; None for what makes none, a memory snapshot or readings alone."""
    if patient.kind is not PatientKind.RECORDING:
        return health(Examined(patient=patient, outcomes=()))
    log = optional(lambda: patient.kernel_log)
    if log is not None and log.saved:
        return NO_XID
    survey = optional(lambda: patient.gpu_survey)
    return SAVED_GPUS_WELL if survey is not None and survey.saved else None
