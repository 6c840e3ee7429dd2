"""What a verdict has seen: the areas that its checks judged, and what a sentence that says "well" requires.

A verdict that finds nothing says what was examined (`areas`). A need is a function that returns what was not
seen, as a clause, or ""; its docstring says what it requires (docs/verdicts.md).
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from gpudoctor.analysis.saved_gpus import not_held
from gpudoctor.lang import say, template, term
from gpudoctor.lang.message import concatenated
from gpudoctor.model import Crashed, Found, Outcome, Passed, Patient, PatientKind, Ranked, Severity, Skipped
from gpudoctor.model.comparison import Change, Ratio
from gpudoctor.model.proof import TrialRow
from gpudoctor.model.run import RunSummary
from gpudoctor.model.signs.process import ProcessWindow
from gpudoctor.model.signs.recording import Recording
from gpudoctor.model.signs.source import Source
from gpudoctor.model.unavailable import optional
from gpudoctor.text import capitalised, count, joined, percent

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
PRICED = ("data_wait", "transfer", "sync", "logging", "checkpoint", "evaluation", "profiler", "collective", "compile")
"""Phases of a watched job that a cure could take away; the rest is the work itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim(Generic[T]):
    """A sentence that calls something well, and what it requires."""

    command: str
    says: str
    """What the sentence holds, and no other sentence does."""
    needs: tuple[Callable[[T], str], ...]

    def lacks(self, case: T) -> list[str]:
        """What was not seen, a clause for each need."""
        return [clause for need in self.needs if (clause := need(case))]


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


_UNJUDGED = ((template("labels"), ()), (template("schedule"), ()), (template("resume"), ()))
"""What no check judges yet."""
_OF_FILES = (
    (template("data loading"), ("DATA",)),
    (template("training loop"), ("LOOP",)),
    (template("precision"), ()),
    (template("settings"), ("CFG",)),
    *_UNJUDGED,
)
_OF_RUNS = ((template("memory growth"), ()), (template("loss"), ()), (template("gradients"), ()), *_UNJUDGED)
AREAS = {
    PatientKind.MACHINE: (
        (template("environment"), ("ENV",)),
        (template("GPU state"), ("GPU",)),
        (template("GPU speed"), ("NODE",)),
        (template("link speed"), ("NODE",)),
    ),
    PatientKind.SCRIPT: _OF_FILES,
    PatientKind.COMMAND: _OF_FILES,
    PatientKind.RECORDING: _OF_RUNS,
    PatientKind.PROCESS: _OF_RUNS,
}
"""Areas of an examination, each with the topics whose checks judge it beside those that name it (`judges`)."""


def _loaders(source: Source) -> object:
    from gpudoctor.analysis.source.loaders import loaders

    return loaders(source)


_THERE: dict[str, Callable[[Patient], object]] = {
    "GPU state": lambda patient: patient.gpu_survey.gpus,
    "data loading": lambda patient: _loaders(patient.source),
    "settings": lambda patient: patient.configs.files,
    "training loop": lambda patient: any(loop.engine is None for _, loop in patient.source.training_loops),
}
"""What a patient must have for an area to be there: a check passes, too, where there is nothing of its kind."""


def areas(
    kind: PatientKind, outcomes: Iterable[Outcome], patient: Patient | None = None
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The areas that were judged, and those that were not."""
    looked = [item for item in outcomes if isinstance(item, Passed | Found)]
    rows = AREAS.get(kind, ())
    judged = {name: any(item.judges == name or item.code.startswith(topic) for item in looked) for name, topic in rows}
    missed = tuple(term(name) for name, is_judged in judged.items() if not is_judged)
    there = [name for name in judged if patient is None or name not in _THERE or _is_there(name, patient)]
    return tuple(term(name) for name in there if judged[name]), missed


def _is_there(name: str, patient: Patient) -> bool:
    return bool(optional(lambda: _THERE[name](patient)))


def not_judged(kind: PatientKind, outcomes: Iterable[Outcome]) -> str:
    """A sentence that names the areas that were not judged, with a blank before it; "" if all were."""
    missed = areas(kind, outcomes)[1]
    return say(" {areas} were not judged.", areas=capitalised(joined(missed))) if missed else ""


def _crashed(case: Examined | Ran) -> str:
    """No check crashed."""
    number = sum(isinstance(item, Crashed) for item in case.outcomes)
    return say("{checks} crashed", checks=count(number, "check")) if number else ""


def _nothing_passed(case: Examined) -> str:
    """A check passed."""
    if case.notes or any(isinstance(item, Passed) for item in case.outcomes):
        return ""
    return say("nothing could be examined")


def _deselected(case: Examined | Ran) -> str:
    """No check was left out."""
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
    """Every file that was named was read."""
    return say("a part of it could not be examined") if case.incomplete else ""


def _no_gpu(case: Examined) -> str:
    """A GPU of this machine answered."""
    survey = optional(lambda: case.patient.gpu_survey)
    if survey is None:
        return say("the GPUs were not examined")
    return "" if survey.gpus else say("no GPU was examined ({absence})", absence=survey.absence)


def _no_training(case: Examined) -> str:
    """A training was found in the files."""
    source = optional(lambda: case.patient.source)
    configs = optional(lambda: case.patient.configs)
    found = (source is not None and source.trains) or (configs is not None and configs.trains)
    return "" if found else say("no training was found in it")


def _elsewhere(case: Examined) -> str:
    """The job's GPUs, if it requests any, are here."""
    job = optional(lambda: case.patient.job)
    survey = optional(lambda: case.patient.gpu_survey)
    if job is not None:
        from gpudoctor.analysis.workload import runs_here

        if not runs_here(case.patient):
            return say("it runs on another machine, which was not examined")
    if survey is not None and survey.gpus:
        return ""
    if job is not None and job.card is not None:
        return say("its card ({card}) was not examined", card=job.card)
    source = optional(lambda: case.patient.source)
    if (job is not None and job.gpus_granted) or (source is not None and _on_cuda(source)):
        why = say(" ({absence})", absence=survey.absence) if survey is not None else ""
        return say("its GPUs were not examined{why}", why=why)
    return ""


def _on_cuda(source: Source) -> bool:
    from gpudoctor.analysis.source.device_tensors import Target, training_target

    return training_target(source) is Target.CUDA


def _ranks_lost(case: Examined) -> str:
    """Every rank took part to the end."""
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
    """A unit of each node was measured."""
    preflight = optional(lambda: case.patient.preflight)
    if preflight is None:
        return ""
    measured = {unit.node for unit in preflight.units if unit.figures and not unit.failure}
    missing = len(preflight.nodes) - len(measured)
    return (
        say("{nodes} of {all_nodes} gave no figure", nodes=count(missing, "node"), all_nodes=len(preflight.nodes))
        if missing
        else ""
    )


def _file_cut(case: Examined) -> str:
    """The whole log was read."""
    log = optional(lambda: case.patient.kernel_log)
    return say("the part that could be read has no Xid event") if log is not None and log.problems else ""


def _xid_unseen(case: Examined) -> str:
    """A check passed that looks for Xid events."""
    looked = any(isinstance(item, Passed) and not item.silenced for item in case.outcomes)
    return "" if looked else say("no check passed")


def _gpus_unlisted(case: Examined) -> str:
    """The file lists every GPU."""
    survey = optional(lambda: case.patient.gpu_survey)
    if survey is None or not survey.unlisted:
        return ""
    listed = len(survey.gpus) + len(survey.lost)
    return say("the file lists {listed} of {total} GPUs", listed=listed, total=listed + survey.unlisted)


def _readings_missing(case: Examined) -> str:
    """The file has errors, clocks, temperatures, power and link."""
    survey = optional(lambda: case.patient.gpu_survey)
    missing = not_held(survey, needed=True) if survey is not None else []
    return say("the file does not contain {missing}", missing=joined(missing)) if missing else ""


def _severe(case: Ran) -> str:
    """No finding is above a note."""
    severe = sum(item.finding.severity is not Severity.NOTE for item in case.ranked)
    return say("{findings} above a note", findings=count(severe, "finding")) if severe else ""


def _ended_badly(case: Ran) -> str:
    """It ended well."""
    return say("it did not end well") if case.died else ""


def _few_steps(case: Ran) -> str:
    """20 steady steps."""
    if case.run.steady_steps >= FEWEST_STEPS:
        return ""
    return say("it made only {steps}", steps=count(case.run.steady_steps, "steady step"))


def _unexplained(case: Ran) -> str:
    """Its time is computation, or a finding explains the rest."""
    if case.bound <= UNEXPLAINED:
        return ""
    return say("{bound} of its time is not computation", bound=percent(1 - 1 / case.bound))


def _ranks_unseen(case: Ran) -> str:
    """Every rank reported."""
    starts = [process.first("start") for process in case.recording.ranks]
    worlds = [start.get("world") for start in starts if start is not None]
    world = max((size for size in worlds if isinstance(size, int)), default=0)
    seen = len({process.rank for process in case.recording.ranks})
    return say("{seen} of its {world} ranks were seen", seen=seen, world=world) if seen < world else ""


def _device_unseen(case: Ran) -> str:
    """Its GPU, if it uses one, was sampled."""
    from gpudoctor.analysis.run.job_facts import on_gpu

    used = any(on_gpu(process) for process in case.recording.ranks)
    if used and not case.run.gpus and case.recording.origin == "gpudoctor":
        return say("its GPU was not sampled")
    return say("what its device did was not seen") if case.run.gain_unknown else ""


def _few_samples(window: ProcessWindow) -> str:
    """30 stack samples."""
    if window.samples >= FEWEST_SAMPLES:
        return ""
    return say(
        "{samples} of {fewest_samples} stack samples so far", samples=window.samples, fewest_samples=FEWEST_SAMPLES
    )


def share_lost(window: ProcessWindow) -> float:
    """Share of a watched job's samples in phases that a cure could take away; 0 without a sample."""
    return sum(window.phases.get(phase, 0) for phase in PRICED) / max(1, window.samples)


def _time_lost(window: ProcessWindow) -> str:
    """Most of its time is computation."""
    lost = share_lost(window)
    return say("{lost} of its time is not computation", lost=percent(lost)) if lost >= TO_GAIN else ""


def _gpus_unread(window: ProcessWindow) -> str:
    """The GPUs were read, if there are any."""
    # Without a fix there is no GPU here, and nothing to read.
    gap = next((gap for gap in window.gaps if gap.panel == "gpu" and gap.fix), None)
    return say("the GPUs were not read: {reason}", reason=gap.reason) if gap is not None else ""


def _too_short(case: ComparedRuns) -> str:
    """8 steady steps of each run."""
    return (
        say("a run made fewer than {fewest_compared} steady steps", fewest_compared=FEWEST_COMPARED)
        if case.time is None
        else ""
    )


def _no_difference(case: ComparedRuns) -> str:
    """An interval of the ratio without 1, and a change above 1 %."""
    return "" if case.change in (Change.FASTER, Change.SLOWER) else say("the difference may be chance")


def _two_jobs(case: ComparedRuns) -> str:
    """One job: script, model, ranks and kind of step agree."""
    return say("they are two jobs: {jobs}", jobs=concatenated("; ", case.jobs)) if case.jobs else ""


def _crowded(case: ComparedRuns) -> str:
    """Other processes left a CPU idle during both."""
    return (
        say("other processes used {crowds}, and no CPU was idle", crowds=concatenated(" and ", case.crowds))
        if case.crowds
        else ""
    )


def _not_faster(row: TrialRow) -> str:
    """Pairs of runs whose interval is above 1 for all looks."""
    faster = row.proof is not None and row.proof.verdict == "faster"
    return "" if faster else say("it was not faster at every look")


def _loss_moved(row: TrialRow) -> str:
    """The loss did not change, if one was seen."""
    return say("its loss is different") if row.proof is not None and row.proof.loss == "moved" else ""


def _not_gone(row: TrialRow) -> str:
    """A run with the remedy in which the ailment was looked for and is gone."""
    cure = row.proof.cure if row.proof is not None else None
    return "" if cure is not None and cure.gone else say("the finding came back, or its check did not run")


_EXAMINED = (_crashed, _nothing_passed, _deselected, _unread)
_MACHINE: Claim[Examined] = Claim(command="check", says="This machine shows", needs=(*_EXAMINED, _no_gpu))
_JOB: Claim[Examined] = Claim(
    command="check", says="shows no known fault", needs=(*_EXAMINED, _no_training, _elsewhere)
)
_CLUSTER: Claim[Examined] = Claim(
    command="preflight", says="units passed", needs=(_crashed, _nothing_passed, _unread, _ranks_lost, _units_unmeasured)
)
NO_XID: Claim[Examined] = Claim(command="report", says="and no Xid event", needs=(_xid_unseen, _file_cut))
SAVED_GPUS_WELL: Claim[Examined] = Claim(
    command="report",
    says="Nothing is wrong with",
    needs=(_crashed, _nothing_passed, _deselected, _no_gpu, _gpus_unlisted, _readings_missing),
)
_SEEN = (_few_steps, _ranks_unseen, _device_unseen)
RUN_WELL: Claim[Ran] = Claim(
    command="run",
    says="Little time is lost",
    needs=(_ended_badly, _severe, _crashed, _deselected, *_SEEN, _unexplained),
)
WATCH_WELL: Claim[ProcessWindow] = Claim(
    command="watch", says="Little time is lost", needs=(_few_samples, _time_lost, _gpus_unread)
)
OTHER_SPEED: Claim[ComparedRuns] = Claim(
    command="compare", says="The second run is", needs=(_too_short, _no_difference, _two_jobs, _crowded)
)
PROVEN: Claim[TrialRow] = Claim(command="verify", says="Proven: ", needs=(_not_faster, _loss_moved))
CURED: Claim[TrialRow] = Claim(command="verify", says="Cured: ", needs=(_not_gone,))
CLAIMS = (
    _MACHINE, _JOB, _CLUSTER, NO_XID, SAVED_GPUS_WELL, RUN_WELL, WATCH_WELL, OTHER_SPEED, PROVEN, CURED
)  # fmt: skip
"""Every sentence that calls something well, better or cured."""


def warned(who: str, warnings: Sequence[str]) -> str:
    """How many warnings there are, by their names, and the first."""
    if len(warnings) == 1:
        return say("{who}: 1 warning, {name}.", who=who, name=warnings[0])
    return say(
        "{who}: {warnings}; start with {name}.", who=who, warnings=count(len(warnings), "warning"), name=warnings[0]
    )


def health(case: Examined) -> Claim[Examined]:
    """The claim that an examination without a run can make."""
    return {PatientKind.MACHINE: _MACHINE, PatientKind.CLUSTER: _CLUSTER}.get(case.patient.kind, _JOB)


def unexamined(case: Examined | Ran | ProcessWindow) -> tuple[str, ...]:
    """What was not seen and must have been for a claim of health, a clause each; not what the user left out."""
    if isinstance(case, Ran):
        return tuple(clause for need in (_crashed, *_SEEN) if (clause := need(case)))
    if isinstance(case, ProcessWindow):
        return tuple(clause for need in (_few_samples, _gpus_unread) if (clause := need(case)))
    claim = _claim(case.patient)
    needs = claim.needs if claim is not None else ()
    return tuple(clause for need in needs if need is not _deselected and (clause := need(case)))


def _claim(patient: Patient) -> Claim[Examined] | None:
    """The claim that an examination can make; None for what makes none, a memory snapshot or readings alone."""
    if patient.kind is not PatientKind.RECORDING:
        return health(Examined(patient=patient, outcomes=()))
    log = optional(lambda: patient.kernel_log)
    if log is not None and log.saved:
        return NO_XID
    survey = optional(lambda: patient.gpu_survey)
    return SAVED_GPUS_WELL if survey is not None and survey.saved else None
