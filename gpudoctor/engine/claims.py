"""What a verdict has seen: the areas that its checks judged, and what a sentence that says "well" requires.

A verdict that finds nothing says what was examined (`areas`). For each sentence that calls something well a function
yields what was not seen, a clause each; docs/verdicts.md says what each requires.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

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

Clauses: TypeAlias = Iterator[str]

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


_THERE: dict[str, Callable[[Patient], object]] = {
    "GPU state": lambda patient: patient.gpu_survey.gpus,
    "data loading": lambda patient: _loads(patient.source),
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
    there = [name for name in judged if patient is None or _is_there(name, patient)]
    return tuple(term(name) for name in there if judged[name]), missed


def _loads(source: Source) -> bool:
    from gpudoctor.analysis.source.loaders import loaders

    return bool(loaders(source))


def _is_there(name: str, patient: Patient) -> bool:
    return name not in _THERE or bool(optional(lambda: _THERE[name](patient)))


def not_judged(kind: PatientKind, outcomes: Iterable[Outcome]) -> str:
    """A sentence that names the areas that were not judged, with a blank before it; "" if all were."""
    missed = areas(kind, outcomes)[1]
    return say(" {areas} were not judged.", areas=capitalised(joined(missed))) if missed else ""


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


def _crashed(case: Examined | Ran) -> Clauses:
    if number := sum(isinstance(item, Crashed) for item in case.outcomes):
        yield say("{checks} crashed", checks=count(number, "check"))


def _left_out(case: Examined | Ran) -> Clauses:
    number = sum(isinstance(item, Skipped) and item.deselected and not item.held for item in case.outcomes)
    if number == 1:
        yield say("1 check was not selected")
    elif number:
        yield say("{checks} were not selected", checks=count(number, "check"))


def _looked(case: Examined) -> Clauses:
    yield from _crashed(case)
    if not case.notes and not any(isinstance(item, Passed) for item in case.outcomes):
        yield say("nothing could be examined")


def _unread(case: Examined) -> Clauses:
    if case.incomplete:
        yield say("a part of it could not be examined")


def _without_gpu(case: Examined) -> Clauses:
    survey = optional(lambda: case.patient.gpu_survey)
    if survey is None:
        yield say("the GPUs were not examined")
    elif not survey.gpus:
        yield say("no GPU was examined ({absence})", absence=survey.absence)


def _of_machine(case: Examined) -> Clauses:
    yield from (*_looked(case), *_left_out(case), *_unread(case), *_without_gpu(case))


def _of_job(case: Examined) -> Clauses:
    yield from (*_looked(case), *_left_out(case), *_unread(case))
    source = optional(lambda: case.patient.source)
    configs = optional(lambda: case.patient.configs)
    if not ((source is not None and source.trains) or (configs is not None and configs.trains)):
        yield say("no training was found in it")
    if elsewhere := _elsewhere(case.patient, source):
        yield elsewhere


def _elsewhere(patient: Patient, source: Source | None) -> str:
    """What the job runs on, where that is not the machine that was examined."""
    job, survey = optional(lambda: patient.job), optional(lambda: patient.gpu_survey)
    if job is not None:
        from gpudoctor.analysis.workload import runs_here

        if not runs_here(patient):
            return say("it runs on another machine, which was not examined")
    if survey is not None and survey.gpus:
        return ""
    if job is not None and job.card is not None:
        return say("its card ({card}) was not examined", card=job.card)
    wanted = job is not None and bool(job.gpus_granted)
    if not wanted and source is not None:
        from gpudoctor.analysis.source.device_tensors import Target, training_target

        wanted = training_target(source) is Target.CUDA
    why = say(" ({absence})", absence=survey.absence) if survey is not None else ""
    return say("its GPUs were not examined{why}", why=why) if wanted else ""


def _of_cluster(case: Examined) -> Clauses:
    yield from (*_looked(case), *_unread(case))
    preflight = optional(lambda: case.patient.preflight)
    if preflight is None:
        yield say("nothing was measured")
        return
    if lost := len({loss.rank for loss in preflight.losses}):
        yield say("{ranks} of {world} did not take part to the end", ranks=count(lost, "rank"), world=preflight.world)
    measured = {unit.node for unit in preflight.units if unit.figures and not unit.failure}
    if missing := len(preflight.nodes) - len(measured):
        yield say("{nodes} of {all_nodes} gave no figure", nodes=count(missing, "node"), all_nodes=len(preflight.nodes))


def unread_log(case: Examined) -> Clauses:
    """What a saved kernel log lacks to be free of Xid events."""
    if not any(isinstance(item, Passed) and not item.silenced for item in case.outcomes):
        yield say("no check passed")
    log = optional(lambda: case.patient.kernel_log)
    if log is not None and log.problems:
        yield say("the part that could be read has no Xid event")


def unseen_gpus(case: Examined) -> Clauses:
    """What a saved `nvidia-smi -q` lacks to call its GPUs well."""
    yield from (*_looked(case), *_left_out(case), *_without_gpu(case))
    survey = optional(lambda: case.patient.gpu_survey)
    if survey is None:
        return
    if survey.unlisted:
        listed = len(survey.gpus) + len(survey.lost)
        yield say("the file lists {listed} of {total} GPUs", listed=listed, total=listed + survey.unlisted)
    if missing := not_held(survey, needed=True):
        yield say("the file does not contain {missing}", missing=joined(missing))


def _seen_in_run(case: Ran) -> Clauses:
    if case.run.steady_steps < FEWEST_STEPS:
        yield say("it made only {steps}", steps=count(case.run.steady_steps, "steady step"))
    starts = [process.first("start") for process in case.recording.ranks]
    worlds = [start.get("world") for start in starts if start is not None]
    world = max((size for size in worlds if isinstance(size, int)), default=0)
    seen = len({process.rank for process in case.recording.ranks})
    if seen < world:
        yield say("{seen} of its {world} ranks were seen", seen=seen, world=world)
    from gpudoctor.analysis.run.job_facts import on_gpu

    used = any(on_gpu(process) for process in case.recording.ranks)
    if used and not case.run.gpus and case.recording.origin == "gpudoctor":
        yield say("its GPU was not sampled")
    elif case.run.gain_unknown:
        yield say("what its device did was not seen")


def unseen_in_run(case: Ran) -> Clauses:
    """What a run lacks to be called well."""
    if case.died:
        yield say("it did not end well")
    if severe := sum(item.finding.severity is not Severity.NOTE for item in case.ranked):
        yield say("{findings} above a note", findings=count(severe, "finding"))
    yield from (*_crashed(case), *_left_out(case), *_seen_in_run(case))
    if case.bound > UNEXPLAINED:
        yield say("{bound} of its time is not computation", bound=percent(1 - 1 / case.bound))


def share_lost(window: ProcessWindow) -> float:
    """Share of a watched job's samples in phases that a cure could take away; 0 without a sample."""
    return sum(window.phases.get(phase, 0) for phase in PRICED) / max(1, window.samples)


def _seen_live(window: ProcessWindow) -> Clauses:
    if window.samples < FEWEST_SAMPLES:
        yield say("{samples} of {fewest_samples} stack samples so far",
                  samples=window.samples, fewest_samples=FEWEST_SAMPLES)  # fmt: skip
    # Without a fix there is no GPU here, and nothing to read.
    if gap := next((gap for gap in window.gaps if gap.panel == "gpu" and gap.fix), None):
        yield say("the GPUs were not read: {reason}", reason=gap.reason)


def unseen_live(window: ProcessWindow) -> Clauses:
    """What a watched job lacks to be called well."""
    yield from _seen_live(window)
    if (lost := share_lost(window)) >= TO_GAIN:
        yield say("{lost} of its time is not computation", lost=percent(lost))


def doubtful_ratio(case: ComparedRuns) -> Clauses:
    """What two runs lack for one to be called faster."""
    if case.time is None:
        yield say("a run made fewer than {fewest_compared} steady steps", fewest_compared=FEWEST_COMPARED)
    if case.change not in (Change.FASTER, Change.SLOWER):
        yield say("the difference may be chance")
    if case.jobs:
        yield say("they are two jobs: {jobs}", jobs=concatenated("; ", case.jobs))
    if case.crowds:
        yield say("other processes used {crowds}, and no CPU was idle", crowds=concatenated(" and ", case.crowds))


def unproven(row: TrialRow) -> Clauses:
    """What a trial lacks to prove its change."""
    if row.proof is None or row.proof.verdict != "faster":
        yield say("it was not faster at every look")
    if row.proof is not None and row.proof.loss == "moved":
        yield say("its loss is different")


def uncured(row: TrialRow) -> Clauses:
    """What a trial lacks to call its finding cured."""
    if row.proof is None or row.proof.cure is None or not row.proof.cure.gone:
        yield say("the finding came back, or its check did not run")


def warned(who: str, warnings: Sequence[str]) -> str:
    """How many warnings there are, by their names, and the first."""
    if len(warnings) == 1:
        return say("{who}: 1 warning, {name}.", who=who, name=warnings[0])
    return say(
        "{who}: {warnings}; start with {name}.", who=who, warnings=count(len(warnings), "warning"), name=warnings[0]
    )


def lacking(case: Examined) -> list[str]:
    """What an examination without a run lacks to call its patient well, a clause each."""
    kinds = {PatientKind.MACHINE: _of_machine, PatientKind.CLUSTER: _of_cluster}
    return list(kinds.get(case.patient.kind, _of_job)(case))


def unexamined(case: Examined | Ran | ProcessWindow) -> tuple[str, ...]:
    """What was not seen and must have been for a claim of health, a clause each; not what the user left out."""
    if isinstance(case, Ran):
        return (*_crashed(case), *_seen_in_run(case))
    if isinstance(case, ProcessWindow):
        return tuple(_seen_live(case))
    missing = lacking(case)
    if case.patient.kind is PatientKind.RECORDING:  # a memory snapshot or readings alone make no claim
        log, survey = optional(lambda: case.patient.kernel_log), optional(lambda: case.patient.gpu_survey)
        missing = list(unseen_gpus(case)) if survey is not None and survey.saved else []
        missing = list(unread_log(case)) if log is not None and log.saved else missing
    left_out = {*_left_out(case)}
    return tuple(clause for clause in missing if clause not in left_out)
