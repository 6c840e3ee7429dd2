"""What a verdict has seen: the areas that its checks judged, and what a sentence that says "well" requires.

A verdict that finds nothing says what was examined (`areas`). For each sentence that calls something well a function
yields what was not seen, a clause each; docs/verdicts.md says what each requires.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeAlias

from gpudoctor.lang import say, template, term
from gpudoctor.model import Crashed, Found, Outcome, Passed, Patient, PatientKind, Ranked, Severity, Skipped
from gpudoctor.model.records import field, frozen
from gpudoctor.model.signs.source import Source
from gpudoctor.model.unavailable import optional
from gpudoctor.text import capitalised, count, joined, percent

if TYPE_CHECKING:
    from gpudoctor.analysis.run.training.card import Card
    from gpudoctor.model.run import RunSummary
    from gpudoctor.model.signs.process import ProcessWindow
    from gpudoctor.model.signs.recording import Recording

Clauses: TypeAlias = Iterator[str]

FEWEST_STEPS = 20
"""Steady steps below which the speed of a run is not judged."""
UNEXPLAINED = 1.18
"""A bound above this with no finding to explain it is not health: 15 % of the time, what PERF014 notes."""
MUCH = 0.15
"""Share of the time from which on a note is worth naming in the verdict."""
FEWEST_SAMPLES = 30
"""Stack samples below which nothing is said about shares of time."""
TO_GAIN = 0.15
"""Share of a watched job's time outside computation from which on it is not called well."""
PRICED = ("data_wait", "transfer", "sync", "logging", "checkpoint", "evaluation", "profiler", "collective", "compile")
"""Phases of a watched job that a cure could take away; the rest is the work itself."""


@frozen
class Examined:
    """An examination without a run."""

    patient: Patient
    outcomes: Sequence[Outcome]
    notes: int = 0
    incomplete: bool = False
    """Whether a file could not be read, or a reader failed."""


@frozen
class Ran:
    """An examination of a run."""

    recording: "Recording"
    run: "RunSummary"
    bound: float
    """What the largest loss can give back at most, as a factor."""
    died: bool = False
    ranked: Sequence[Ranked] = ()
    outcomes: Sequence[Outcome] = field(default_factory=tuple)


_BY_RUN = ((template("gradients"), ()), (template("labels"), ()), (template("schedule"), ()), (template("resume"), ()))
"""What nothing but a run shows."""
_OF_FILES = (
    (template("data loading"), ("DATA",)),
    (template("training loop"), ("LOOP",)),
    (template("precision"), ()),
    (template("settings"), ("CFG",)),
    *_BY_RUN,
)
_OF_RUNS = ((template("memory growth"), ()), (template("loss"), ()))
AREAS = {
    PatientKind.MACHINE: (
        (template("environment"), ("ENV",)),
        (template("GPU state"), ("GPU",)),
        (template("GPU speed"), ("NODE",)),
        (template("link speed"), ("NODE",)),
    ),
    PatientKind.SCRIPT: _OF_FILES,
    PatientKind.COMMAND: _OF_FILES,
    PatientKind.RECORDING: (*_OF_RUNS, _BY_RUN[0]),
    PatientKind.PROCESS: (*_OF_RUNS, *_BY_RUN),
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
    kind: PatientKind, outcomes: Iterable[Outcome], patient: Patient | None = None, training: "Card" = None
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The areas that were judged, and those that were not; of a run also what its card says of the `training`."""
    looked = [item for item in outcomes if isinstance(item, Passed | Found)]
    rows = AREAS.get(kind, ())
    judged = {name: any(item.judges == name or item.code.startswith(topic) for item in looked) for name, topic in rows}
    if training is not None:
        from gpudoctor.analysis.run.training.card import seen

        judged |= seen(training)
    missed = tuple(term(name) for name, is_judged in judged.items() if not is_judged)
    there = [name for name in judged if patient is None or _is_there(name, patient)]
    return tuple(term(name) for name in there if judged[name]), missed


def _loads(source: Source) -> bool:
    from gpudoctor.analysis.source.loaders import loaders

    return bool(loaders(source))


def _is_there(name: str, patient: Patient) -> bool:
    return name not in _THERE or bool(optional(lambda: _THERE[name](patient)))


def not_judged(kind: PatientKind, outcomes: Iterable[Outcome], training: "Card" = None) -> str:
    """A sentence that names the areas that were not judged, with a blank before it; "" if all were."""
    missed = areas(kind, outcomes, training=training)[1]
    said = template(" {areas} were not judged.") if missed[1:] else template(" {areas} was not judged.")
    return say(said, areas=capitalised(joined(missed))) if missed else ""


def unread_files(patient: Patient) -> str | None:
    """Of named files of which none was read, why the first was not: a sentence, "" if nobody knows; else None."""
    job = optional(lambda: patient.job)
    source, configs = optional(patient.signs.source.take), optional(patient.signs.configs.take)
    if patient.kind is not PatientKind.SCRIPT or (job is not None and job.script_path is not None):
        return None
    read = (source is not None and source.scripts) or (configs is not None and configs.files)
    sentences = [sentence for sign in (source, configs) if sign is not None for _, sentence in sign.unread]
    if read or not sentences:
        return "" if source is None and configs is None else None
    more = len(sentences) - 1
    return sentences[0] + (say(" ({files} more)", files=count(more, "file")) if more else "")


def _checks(case: Examined | Ran, *, left_out: bool = True) -> Clauses:
    """Of the checks those that crashed, that all had nothing to read, and, if asked for, that the user left out."""
    if number := sum(isinstance(item, Crashed) for item in case.outcomes):
        yield say("{checks} crashed", checks=count(number, "check"))
    if isinstance(case, Examined) and not case.notes and not any(isinstance(item, Passed) for item in case.outcomes):
        yield say("nothing could be examined")
    number = sum(isinstance(item, Skipped) and item.deselected and not item.held for item in case.outcomes)
    if left_out and number:
        many = say("{checks} were not selected", checks=count(number, "check"))
        yield say("1 check was not selected") if number == 1 else many


def _without_gpu(patient: Patient) -> Clauses:
    survey = optional(lambda: patient.gpu_survey)
    if survey is None:
        yield say("the GPUs were not examined")
    elif not survey.gpus:
        yield say("no GPU was examined ({absence})", absence=survey.absence)


def _of_job(patient: Patient) -> Clauses:
    source = optional(lambda: patient.source)
    configs = optional(lambda: patient.configs)
    if not ((source is not None and source.trains) or (configs is not None and configs.trains)):
        yield say("no training was found in it")
    if elsewhere := _elsewhere(patient, source):
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


def _of_cluster(patient: Patient) -> Clauses:
    preflight = optional(lambda: patient.preflight)
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
    yield from (*_checks(case), *_seen_in_run(case))
    if case.bound > UNEXPLAINED:
        yield say("{bound} of its time is not computation", bound=percent(1 - 1 / case.bound))


def share_lost(window: "ProcessWindow") -> float:
    """Share of a watched job's samples in phases that a cure could take away; 0 without a sample."""
    return sum(window.phases.get(phase, 0) for phase in PRICED) / max(1, window.samples)


def _seen_live(window: "ProcessWindow") -> Clauses:
    if window.samples < FEWEST_SAMPLES:
        yield say("{samples} of {fewest_samples} stack samples so far",
                  samples=window.samples, fewest_samples=FEWEST_SAMPLES)  # fmt: skip
    # Without a fix there is no GPU here, and nothing to read.
    if gap := next((gap for gap in window.gaps if gap.panel == "gpu" and gap.fix), None):
        yield say("the GPUs were not read: {reason}", reason=gap.reason)


def unseen_live(window: "ProcessWindow") -> Clauses:
    """What a watched job lacks to be called well."""
    yield from _seen_live(window)
    if (lost := share_lost(window)) >= TO_GAIN:
        yield say("{lost} of its time is not computation", lost=percent(lost))


def warned(who: str, warnings: Sequence[str]) -> str:
    """How many warnings there are, by their names, and the first."""
    if len(warnings) == 1:
        return say("{who}: 1 warning, {name}.", who=who, name=warnings[0])
    return say(
        "{who}: {warnings}; start with {name}.", who=who, warnings=count(len(warnings), "warning"), name=warnings[0]
    )


def lacking(case: Examined, *, left_out: bool = True) -> list[str]:
    """What an examination without a run lacks to call its patient well, a clause each."""
    kind = case.patient.kind
    missing = [*_checks(case, left_out=left_out and kind is not PatientKind.CLUSTER)]
    if case.incomplete:
        missing.append(say("a part of it could not be examined"))
    own = {PatientKind.MACHINE: _without_gpu, PatientKind.CLUSTER: _of_cluster}.get(kind, _of_job)
    return [*missing, *(own(case.patient) if kind is not PatientKind.LOG else ())]


def unexamined(case: "Examined | Ran | ProcessWindow") -> tuple[str, ...]:
    """What was not seen and must have been for a claim of health, a clause each; not what the user left out."""
    if isinstance(case, Ran):
        return (*_checks(case, left_out=False), *_seen_in_run(case))
    if not isinstance(case, Examined):
        return tuple(_seen_live(case))
    if case.patient.kind is not PatientKind.RECORDING:
        return tuple(lacking(case, left_out=False))
    log = optional(lambda: case.patient.kernel_log)
    return tuple(unread_log(case)) if log is not None and log.saved else ()
