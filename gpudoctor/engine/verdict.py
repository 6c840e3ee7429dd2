"""The verdict: the answer in a sentence or two, for the top of every report."""

from collections.abc import Sequence

from gpudoctor.model import (
    Crashed,
    Outcome,
    Passed,
    Patient,
    PatientKind,
    Ranked,
    Setting,
    Severity,
    Skipped,
    SourceSpan,
)
from gpudoctor.model.run import RunSummary


def count(number: int, noun: str, plural: str | None = None) -> str:
    """`1 error`, `2 errors`."""
    return f"{number} {noun if number == 1 else plural or noun + 's'}"


def pronounce(
    patient: Patient,
    ranked: Sequence[Ranked],
    outcomes: Sequence[Outcome],
    run: RunSummary | None = None,
    *,
    incomplete: bool = False,
) -> str:
    """The verdict on a patient, from its ranked findings and the outcomes of its checks.

    An examination that is `incomplete`, because a file could not be read, calls nobody healthy.
    """
    if patient.kind is PatientKind.PROCESS:
        from gpudoctor.engine.watch_verdict import pronounce_live

        return pronounce_live(patient.process, ranked)
    if run is not None:
        from gpudoctor.engine.run_verdict import nobody_reported, pronounce_run

        recording = patient.recording
        if recording.ranks:
            return pronounce_run(patient.title, recording, run, ranked, outcomes)
        if recording.origin == "gpudoctor":
            return nobody_reported(recording)
        if not ranked:
            return f"{patient.title} holds readings of {count(len(run.gpus), 'GPU')} and no training steps."
    errors = [item for item in ranked if item.finding.severity is Severity.ERROR]
    warnings = [item for item in ranked if item.finding.severity is Severity.WARNING]
    if errors:
        return _sick(patient, errors, warnings)
    if warnings:
        return _slow(patient, warnings)
    return _well(patient, outcomes, notes=len(ranked), incomplete=incomplete)


def _who(patient: Patient) -> str:
    return "This machine" if patient.kind is PatientKind.MACHINE else patient.title


def _sick(patient: Patient, errors: Sequence[Ranked], warnings: Sequence[Ranked]) -> str:
    counts = count(len(errors), "error") + (f", {count(len(warnings), 'warning')}" if warnings else "")
    if patient.kind is PatientKind.MACHINE:
        return f"This machine is not fit for training ({counts})."
    machine = [item for item in errors if not _in_a_file(item)]
    if machine and len(machine) == len(errors):
        return f"{patient.title} will not run well on this machine ({counts})."
    return f"{patient.title} will fail or give a wrong result ({counts})."


def _in_a_file(item: Ranked) -> bool:
    """Whether the user's own script or config is at fault, and not the machine."""
    return any(isinstance(part, SourceSpan | Setting) and part.path for part in item.finding.evidence)


def _slow(patient: Patient, warnings: Sequence[Ranked]) -> str:
    first = warnings[0].finding
    if len(warnings) == 1:
        return f"{_who(patient)}: one thing costs time or memory, {first.name}."
    return f"{_who(patient)}: {len(warnings)} things cost time or memory; start with {first.name}."


def _well(patient: Patient, outcomes: Sequence[Outcome], *, notes: int, incomplete: bool) -> str:
    passed = sum(isinstance(item, Passed) for item in outcomes)
    crashed = sum(isinstance(item, Crashed) for item in outcomes)
    looked = [item for item in outcomes if not (isinstance(item, Skipped) and item.deselected)]
    if crashed:
        return f"{_who(patient)}: nothing wrong was found, but {count(crashed, 'check')} crashed."
    if not passed and not notes:
        return f"{_who(patient)}: nothing could be examined ({count(len(looked), 'check')} skipped)."
    if incomplete:
        noted = f"; {count(notes, 'note')} worth knowing" if notes else ""
        return f"{_who(patient)}: not all of it could be examined; nothing wrong was found in the rest{noted}."
    if notes:
        return f"{_who(patient)} looks healthy; {count(notes, 'note')} worth knowing."
    return f"{_who(patient)} looks healthy: {count(passed, 'check')} passed."
