"""The verdict: the answer in a sentence or two, for the top of every report."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gpudoctor.engine.claims import Examined, areas, lacking, not_judged, unread_files, warned
from gpudoctor.lang import say, template
from gpudoctor.lang.message import concatenated
from gpudoctor.model import Outcome, Passed, Patient, PatientKind, Ranked, Setting, Severity, Skipped, SourceSpan
from gpudoctor.model.unavailable import NoFailureLogged, Unavailable, optional
from gpudoctor.text import count, joined_clauses

if TYPE_CHECKING:
    from gpudoctor.model.run import RunSummary


def pronounce(
    patient: Patient,
    ranked: Sequence[Ranked],
    outcomes: Sequence[Outcome],
    run: "RunSummary | None" = None,
    *,
    incomplete: bool = False,
) -> str:
    """The verdict on a patient, from its ranked findings and the outcomes of its checks.

    An examination that is `incomplete`, because a file could not be read, calls nobody healthy.
    """
    if patient.kind is PatientKind.PROCESS:
        from gpudoctor.engine.watch_verdict import pronounce_live

        return pronounce_live(patient.process, ranked, outcomes)
    measured = optional(lambda: patient.preflight)
    if patient.kind is PatientKind.CLUSTER or (measured is not None and measured.losses):
        from gpudoctor.engine.preflight_verdict import pronounce_preflight

        case = Examined(patient=patient, outcomes=outcomes, notes=len(ranked), incomplete=incomplete)
        return pronounce_preflight(patient, ranked, lacking(case))
    if optional(lambda: patient.job_log) is not None:
        from gpudoctor.engine.log_verdict import pronounce_log

        return pronounce_log(patient, ranked)
    if patient.kind in (PatientKind.RECORDING, PatientKind.LOG):
        from gpudoctor.engine.saved_verdict import pronounce_saved

        if said := pronounce_saved(patient, ranked, outcomes):
            return said
    if patient.kind is PatientKind.SCRIPT and (dumps := optional(lambda: patient.flight_records)) is not None:
        from gpudoctor.engine.saved_verdict import stood_still

        if said := stood_still(dumps, ranked):
            return said
    if patient.kind is PatientKind.LOG:
        return say("{title}: nothing could be read.", title=patient.title)
    if run is not None:
        from gpudoctor.engine.run_verdict import nobody_reported, pronounce_run

        recording = patient.recording
        if recording.ranks:
            return pronounce_run(patient.title, recording, run, ranked, outcomes)
        if recording.origin == "gpudoctor":
            return nobody_reported(recording, _read_without_failure(patient))
    errors = [item for item in ranked if item.finding.severity is Severity.ERROR]
    warnings = [item for item in ranked if item.finding.severity is Severity.WARNING]
    if errors:
        return _sick(patient, errors, warnings)
    if warnings:
        return warned(_who(patient), [item.finding.name for item in warnings])
    return _well(Examined(patient=patient, outcomes=outcomes, notes=len(ranked), incomplete=incomplete))


def _read_without_failure(patient: Patient) -> str:
    """What was read in the output of a command that failed, and shows no failure; "" if nothing was."""
    try:
        _ = patient.job_log
    except NoFailureLogged as reason:
        return str(reason)
    except Unavailable:
        pass
    return ""


def promised(patient: Patient, ranked: Sequence[Ranked], outcomes: Sequence[Outcome], run: "RunSummary | None") -> str:
    """The sentence of a verdict that says what the first findings can give back; "" where it has none."""
    if run is None or patient.kind is PatientKind.PROCESS or not patient.recording.ranks:
        return ""
    from gpudoctor.engine.run_verdict import promise

    return promise(patient.recording, run, ranked, outcomes)


def _who(patient: Patient) -> str:
    return say("This machine") if patient.kind is PatientKind.MACHINE else patient.title


def _sick(patient: Patient, errors: Sequence[Ranked], warnings: Sequence[Ranked]) -> str:
    counts = count(len(errors), "error") + (
        say(", {warnings}", warnings=count(len(warnings), "warning")) if warnings else ""
    )
    if patient.kind is PatientKind.MACHINE:
        return say("This machine is not fit for training ({counts}).", counts=counts)
    evidence = [part for item in errors for part in item.finding.evidence]
    # an error in the user's own script or config is not the machine's
    here = errors and not any(isinstance(part, SourceSpan | Setting) and part.path for part in evidence)
    if here:
        from gpudoctor.analysis.workload import runs_here

        here = runs_here(patient)
    if here:
        return say("{title} will not run well on this machine ({counts}).", title=patient.title, counts=counts)
    return say("{title} will fail or give a wrong result ({counts}).", title=patient.title, counts=counts)


def _well(case: Examined) -> str:
    """What was examined and shows no fault, what of it was not seen, and what nobody judged."""
    who = _who(case.patient)
    passed = sum(isinstance(item, Passed) for item in case.outcomes)
    noted = say("; {notes} worth knowing", notes=count(case.notes, "note")) if case.notes else ""
    if not passed and not case.notes:
        skipped = sum(isinstance(item, Skipped) and not item.deselected for item in case.outcomes)
        return say("{who}: nothing could be examined ({checks} skipped).", who=who, checks=count(skipped, "check"))
    why = unread_files(case.patient)
    if why is not None:
        unread = template("{why}. gpudoctor examined only this machine: {checks} passed{noted}.")
        unknown = template("{who}: gpudoctor examined nothing of it; of this machine, {checks} passed{noted}.")
        told = {"why": why} if why else {"who": who}
        return say(unread if why else unknown, **told, checks=count(passed, "check"), noted=noted)
    seen, _ = areas(case.patient.kind, case.outcomes, case.patient)
    missing = lacking(case)
    return say(
        "{who} shows no known fault in what can be read{areas}{but}{noted}.{rest}",
        who=who,
        areas=say(" ({areas})", areas=concatenated(", ", seen)) if seen else "",
        but=say(", but {missing}", missing=joined_clauses(missing)) if missing else "",
        noted=noted,
        rest=not_judged(case.patient.kind, case.outcomes),
    )
