"""One examination: from a patient and a request to a report."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, TypeVar

from gpudoctor import __version__
from gpudoctor.analysis import of_run
from gpudoctor.analysis.known_gain import claimed, knowable, speedup
from gpudoctor.analysis.run.steady_run import recorded
from gpudoctor.engine.claims import Examined, Ran, areas, unexamined
from gpudoctor.engine.manual import named
from gpudoctor.engine.ranking import Case, rank
from gpudoctor.engine.registry import Registry
from gpudoctor.engine.runner import run_checks, take_signs
from gpudoctor.engine.selection import Selection
from gpudoctor.engine.settings import Settings
from gpudoctor.engine.suppression import silence
from gpudoctor.engine.verdict import promised, pronounce
from gpudoctor.lang import say, term
from gpudoctor.model.check import Crashed, Found, Outcome, Passed, Skipped
from gpudoctor.model.finding import Code, Confidence, Finding, Severity
from gpudoctor.model.log_message import LibraryDetail, LogDetail
from gpudoctor.model.patient import Patient, PatientKind
from gpudoctor.model.records import field, frozen, replace
from gpudoctor.model.remedy import Applicability, Effect, EffectOrigin, Effort, Remedy
from gpudoctor.model.report import Ranked, Report, Silenced, Subject, Summary
from gpudoctor.model.rule import Rule
from gpudoctor.model.unavailable import Absent, ReaderCrashed, Unavailable, Unread
from gpudoctor.text import joined

if TYPE_CHECKING:
    from gpudoctor.model.run import RunSummary
    from gpudoctor.model.signs.process import ProcessWindow

T = TypeVar("T")


@frozen
class Request:
    """What to run and how; the patient comes apart."""

    registry: Registry
    selection: Selection
    settings: Settings = field(default_factory=Settings)
    baseline: Counter[str] = field(default_factory=Counter)
    """Fingerprints of findings that were known before, with how often each may appear."""
    preview: bool = False
    """Whether suspicions of checks that are often wrong are shown, too."""
    signs_first: tuple[str, ...] = ()
    """Signs to take at the same time before the first check."""


def examine(patient: Patient, request: Request, problems: Iterable[str] = ()) -> Report:
    """Run the selected checks, silence, prescribe, rank and sum up."""
    registry = request.registry
    take_signs(patient, request.signs_first)
    chosen = [check for code, check in registry.checks.items() if code in request.selection.selected]
    outcomes = run_checks(patient, chosen, request.settings.thresholds, preview=request.preview)
    left_out = (code for code in registry.checks if code not in request.selection.selected)
    outcomes += [Skipped(code=code, reason=say("not selected"), deselected=True) for code in left_out]
    outcomes, silenced = _silence(outcomes, patient, request)
    outcomes = [_measured(item, patient) if isinstance(item, Found) else item for item in outcomes]
    found = [finding for item in outcomes if isinstance(item, Found) for finding in item.findings]
    trouble = [*problems, *_unread(patient), *registry.problems]
    cases = [Case(finding=finding, remedies=_prescribe(finding, patient, registry.rules, trouble))
             for finding in found]  # fmt: skip
    ranked = rank(cases)
    outcomes.sort(key=lambda item: item.code)
    recording = _or_none(patient.signs.recording.take)
    run = _run(patient, recording, ranked, outcomes) if recording else None
    job, log = _or_none(patient.signs.job.take), _or_none(patient.signs.job_log.take)
    if log is not None:  # loaded only where a log was named
        from gpudoctor.engine.log_verdict import summarise_log
    return Report(
        version=__version__,
        subject=describe(patient),
        summary=_summary(patient, ranked, silenced, outcomes, run, incomplete=bool(trouble)),
        findings=ranked,
        silenced=tuple(silenced),
        outcomes=tuple(outcomes),
        checks=tuple(named(check) for check in registry.checks.values()),
        problems=tuple(dict.fromkeys(trouble)),
        remarks=tuple(_remarks(patient)),
        launch=tuple(item for item in job.launches if item.path) if job else (),
        run=run,
        log=summarise_log(log) if log else None,
        preflight=_or_none(patient.signs.preflight.take),
        scripts=_scripts(patient) if recording else {},
    )


def _scripts(patient: Patient) -> Mapping[str, str]:
    """The texts of what ran, by path."""
    source = _or_none(patient.signs.source.take)
    return {script.path: script.text for script in source.scripts} if source else {}


def _run(
    patient: Patient, recording: "of_run.Recording", ranked: tuple[Ranked, ...], outcomes: list[Outcome]
) -> "RunSummary":
    """The run in numbers; loaded only where something was run."""
    from gpudoctor.engine.run_summary import summarise, with_work
    from gpudoctor.engine.run_verdict import in_good_health

    run = with_work(summarise(recording), patient)
    return replace(run, healthy=in_good_health(recording, run, ranked, outcomes))


def _unread(patient: Patient) -> list[str]:
    """Sentences about the user's files that could not be read, and about a run that nobody reported from."""
    if patient.kind is PatientKind.PROCESS:
        return []  # its script is looked up where a finding needs it, not examined
    recording = _or_none(patient.signs.recording.take)
    source = _or_none(patient.signs.source.take)
    configs = _or_none(patient.signs.configs.take)
    silent = recording.problems if recording and not recording.ranks else ()
    log = _or_none(patient.signs.job_log.take)
    dumps = _or_none(patient.signs.flight_records.take)
    return [
        *silent,
        *(log.problems if log else ()),
        *(dumps.problems if dumps else ()),
        *_left_unread(patient),
        *(sentence for sign in (source, configs) if sign for _, sentence in sign.unread),
    ]


def _left_unread(patient: Patient) -> Iterator[str]:
    """Sentences about a log, and what lies beside one, that were named and could not be read."""
    signs = patient.signs
    for sign in (signs.job_log, signs.flight_records):
        try:
            sign.take()
        except Unread as reason:
            yield str(reason)
        except (Unavailable, ReaderCrashed):
            pass


def _remarks(patient: Patient) -> Iterator[str]:
    """Sentences about config files and recordings that were read with a reservation."""
    if patient.kind is PatientKind.PROCESS:
        return
    recording = _or_none(patient.signs.recording.take)
    job = _or_none(patient.signs.job.take)
    yield from job.skipped if job else ()
    if recording and recording.ranks:
        yield from recording.problems
        source = _or_none(patient.signs.source.take)
        if source and source.edited:
            names = joined(sorted(source.edited))
            yield say("{names} has changed since the run began: gpudoctor shows the lines that ran", names=names)
        if patient.kind is PatientKind.RECORDING and recording.command:
            yield from _without_source(patient)
    saved = patient.kind in (PatientKind.RECORDING, PatientKind.LOG)
    if saved and (log := _or_none(patient.signs.kernel_log.take)):
        yield from log.problems
    configs = _or_none(patient.signs.configs.take)
    if configs and patient.signs.reader_answers.unread:
        yield patient.signs.reader_answers.unread
    for file in configs.files if configs else ():
        yield from (say("{path}: {note}", path=file.path, note=note) for note in file.notes)
        for twice in file.duplicates:
            yield (
                say(
                    "{path}: {key} is written twice (lines {first_line} and {line}); the last one counts",
                    path=file.path,
                    key=twice.key,
                    first_line=twice.first_line,
                    line=twice.line,
                )
            )


def _without_source(patient: Patient) -> Iterator[str]:
    """Of a recording whose script is not here as it was: what its source would confirm cannot be told."""
    try:
        patient.signs.source.take()
    except Unavailable as reason:
        yield say("{reason}: gpudoctor did not look for causes that only its source shows", reason=reason)
    except ReaderCrashed:
        pass


def _silence(outcomes: list[Outcome], patient: Patient, request: Request) -> tuple[list[Outcome], list[Silenced]]:
    """Take silenced findings out of their outcomes; a check with none left has passed."""
    result: list[Outcome] = []
    baseline = request.baseline.copy()
    all_silenced: list[Silenced] = []
    for item in outcomes:
        if isinstance(item, Found):
            kept, silenced = silence(item.findings, patient, request.selection, request.settings, baseline)
            all_silenced += silenced
            if kept:
                item = replace(item, findings=tuple(kept))
            else:
                item = Passed(code=item.code, silenced=len(silenced), judges=item.judges)
        result.append(item)
    return result, all_silenced


def _measured(outcome: Found, patient: Patient) -> Found:
    """The outcome without claims of a gain that nobody knows.

    What only the source suspects of what a run did not come to is a note.
    """
    findings = tuple(claimed(finding, patient) for finding in outcome.findings)
    if (recording := recorded(patient)) is not None:
        findings = of_run.with_notes(recording, findings)
    return replace(outcome, findings=findings)


def _prescribe(
    finding: Finding, patient: Patient, rules: Mapping[Code, tuple[type[Rule], ...]], trouble: list[str]
) -> tuple[Remedy, ...]:
    """Remedies of every rule that answers a finding; a rule that fails is a problem of the examination."""
    remedies: list[Remedy] = []
    in_log = isinstance(finding.detail, LogDetail)
    if isinstance(finding.detail, LibraryDetail):
        advice = term(finding.detail.advice)
        own = f"{finding.code}-{finding.detail.kind}"
        by_hand = Applicability.DISPLAY_ONLY
        return (Remedy(id=own, title=advice, steps=(advice,), applicability=by_hand, effort=Effort.SMALL_EDIT),)
    for kind in rules.get(finding.code, ()):
        if in_log and not kind.reads_logs:
            continue
        computed = {remedy.id for remedy in remedies}
        try:
            for remedy in kind().prescribe(finding, patient):
                if remedy.id in computed:  # a row, of which a function has given the edit too
                    continue
                known = knowable(_supported(_editable(remedy, patient), patient), finding, patient)
                remedies.append(_bounded(known, finding))
        except (Unavailable, ReaderCrashed):
            continue  # what came before the missing sign stands
        except Exception as error:  # noqa: BLE001  # one bad rule must not cost the report
            trouble.append(
                say(
                    "the rule for {code} failed: {kind}: {error}",
                    code=finding.code,
                    kind=type(error).__name__,
                    error=error,
                )
            )
    return tuple(remedies)


def prescribe_again(item: Ranked, finding: Finding, patient: Patient, registry: Registry) -> Ranked:
    """A finding that a trial knows more of now, in its old place, with the remedies that go with that."""
    case = Case(finding=finding, remedies=_prescribe(finding, patient, registry.rules, []))
    [again] = rank([case])
    return replace(item, finding=finding, remedies=again.remedies)


def _editable(remedy: Remedy, patient: Patient) -> Remedy:
    """The remedy without edits of a notebook or of a script that was edited since: no file has their lines."""
    source = _or_none(patient.signs.source.take) if remedy.edits else None
    edited = source.edited if source else ()
    if not any(edit.path.endswith(".ipynb") or edit.path in edited for edit in remedy.edits):
        return remedy
    return replace(remedy, edits=(), applicability=Applicability.DISPLAY_ONLY)


def _supported(remedy: Remedy, patient: Patient) -> Remedy:
    """The remedy without edits that write what the project's own torch may lack; a step says why."""
    if not remedy.edits:
        return remedy
    from gpudoctor.analysis.source.target_versions import too_old

    lacks = too_old(patient, remedy)
    if lacks is None:
        return remedy
    asked, need = lacks
    step = say(
        "That needs torch {need}, and {path}:{line} asks for {name}{wanted}.",
        need=need,
        path=asked.path,
        line=asked.line,
        name=asked.name,
        wanted=asked.wanted,
    )
    return replace(remedy, edits=(), applicability=Applicability.DISPLAY_ONLY, steps=(*remedy.steps, step))


def _bounded(remedy: Remedy, finding: Finding) -> Remedy:
    """A remedy of an ailment whose share of time was measured gives back that share at most (Amdahl's law)."""
    share = finding.cost.step_share
    if remedy.effect is not None or share is None or not 0 < share < 1:
        return remedy
    if finding.confidence is not Confidence.CONFIRMED or not remedy.bounded:
        return remedy
    most = round(speedup(share), 3)
    effect = Effect(quantity="throughput", low=1.0, high=most, unit="x", provenance=EffectOrigin.BOUND)
    return replace(remedy, effect=effect)


def _summary(
    patient: Patient,
    ranked: tuple[Ranked, ...],
    silenced: list[Silenced],
    outcomes: list[Outcome],
    run: "RunSummary | None",
    *,
    incomplete: bool,
) -> Summary:
    severities = [item.finding.severity for item in ranked]
    saved = patient.kind is PatientKind.RECORDING and (run is None or not run.ranks)
    case: Examined | Ran | ProcessWindow
    case = Examined(patient=patient, outcomes=outcomes, notes=len(ranked), incomplete=incomplete)
    recording = _or_none(patient.signs.recording.take) if run is not None else None
    if run is not None and recording is not None and recording.ranks:
        case = Ran(recording=recording, run=run, bound=1.0, outcomes=outcomes)
    elif patient.kind is PatientKind.PROCESS:
        case = patient.process
    judged, missed = ((), ()) if saved else areas(patient.kind, outcomes, patient, run.training if run else None)
    return Summary(
        verdict=pronounce(patient, ranked, outcomes, run, incomplete=incomplete),
        unexamined=unexamined(case),
        judged=judged,
        not_judged=missed,
        promise=promised(patient, ranked, outcomes, run),
        error=severities.count(Severity.ERROR),
        warning=severities.count(Severity.WARNING),
        note=severities.count(Severity.NOTE),
        silenced=len(silenced),
        passed=sum(isinstance(item, Passed) for item in outcomes),
        skipped=sum(isinstance(item, Skipped) and not item.deselected for item in outcomes),
        crashed=sum(isinstance(item, Crashed) for item in outcomes),
    )


def describe(patient: Patient) -> Subject:
    """The patient's heading; signs that are missing leave their line out."""
    host = _or_none(lambda: patient.host)
    survey = _or_none(lambda: patient.gpu_survey)
    torch = _or_none(lambda: patient.torch)
    measured = _or_none(patient.signs.preflight.take) if patient.kind is PatientKind.CLUSTER else None
    details: list[tuple[str, str]] = []
    if survey and survey.gpus and not isinstance(survey.driver_version, Absent):
        details.append(("driver", survey.driver_version))
    details += [("torch", torch.version)] if torch else []
    here = patient.kind is not PatientKind.SCRIPT
    if host and not here:
        from gpudoctor.analysis.workload import runs_here  # only a patient of files needs it

        here = runs_here(patient)
    if host and here:
        memory = f"{(host.memory_limit or host.memory_total) / (1 << 30):.0f} GiB"
        details += [("CPUs", f"{host.cpu_budget:g}"), ("memory", memory)]
    gpus = tuple(gpu.name for gpu in survey.gpus) if survey else ()
    if measured is not None:
        gpus = tuple(unit.name for unit in measured.units if unit.device == "cuda")
        details += [("nodes", str(len(measured.nodes))), ("ranks", str(measured.world))]
    return Subject(
        kind=patient.kind.value,
        title=patient.title,
        targets=patient.targets,
        host=host.hostname if host else "",
        gpus=gpus,
        details=tuple(details),
    )


def _or_none(take: Callable[[], T]) -> T | None:
    try:
        return take()
    except (Unavailable, ReaderCrashed):
        return None
