"""The verdict: the answer in a sentence or two, for the top of every report."""

from collections.abc import Sequence

from gpudoctor.engine.claims import Examined, health, nothing_read
from gpudoctor.model import (
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
from gpudoctor.model.amounts import count, joined, size
from gpudoctor.model.run import RunSummary
from gpudoctor.model.signs.kernel_log import KernelLog
from gpudoctor.model.signs.memory_snapshot import DeviceMemory, MemorySnapshot
from gpudoctor.model.workload import optional


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
    if (log := _saved_log(patient)) is not None:
        return _of_log(patient.title, log, ranked, outcomes)
    if (snapshot := optional(lambda: patient.memory_snapshot)) is not None:
        return _of_snapshot(patient.title, snapshot)
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
    return _well(Examined(patient=patient, outcomes=outcomes, notes=len(ranked), incomplete=incomplete))


def promised(
    patient: Patient, ranked: Sequence[Ranked], outcomes: Sequence[Outcome], run: RunSummary | None
) -> str:
    """The sentence of a verdict that says what the first findings can give back; "" where it has none."""
    if run is None or patient.kind is PatientKind.PROCESS or not patient.recording.ranks:
        return ""
    from gpudoctor.engine.run_verdict import promise

    return promise(patient.recording, run, ranked, outcomes)


def _saved_log(patient: Patient) -> KernelLog | None:
    """The kernel log that was named; this machine's own, read or not, is no concern of a verdict."""
    log = optional(lambda: patient.kernel_log) if patient.kind is PatientKind.RECORDING else None
    return log if log is not None and log.saved else None


def _of_log(title: str, log: KernelLog, ranked: Sequence[Ranked], outcomes: Sequence[Outcome]) -> str:
    """What a saved kernel log tells: of the machine that wrote it, at the time that it was written."""
    severities = [item.finding.severity for item in ranked]
    errors, warnings = severities.count(Severity.ERROR), severities.count(Severity.WARNING)
    counts = ", ".join(
        count(number, word) for number, word in ((errors, "error"), (warnings, "warning")) if number
    )
    if errors:
        return f"The machine that wrote {title} was not fit for training ({counts})."
    if warnings:
        return f"{title} holds events of the GPU driver that need a look ({counts})."
    if ranked:
        return f"{title} holds no event of the GPU driver above a note ({count(len(ranked), 'note')})."
    messages = count(log.read or 0, "kernel message")
    looked = any(isinstance(item, Passed) and not item.silenced for item in outcomes)
    return (
        f"{title} holds {messages} and no Xid event."
        if looked
        else f"{title} holds {messages}; no check passed."
    )


def _of_snapshot(title: str, snapshot: MemorySnapshot) -> str:
    """What a snapshot of the allocator shows: how much is held, and by which lines."""
    if not snapshot.devices:
        return f"{title} holds no memory of a device."
    return f"{title}: " + " ".join(_of_device(device) for device in snapshot.devices)


def _of_device(memory: DeviceMemory) -> str:
    lines = [
        f"{item.path.rpartition('/')[2]}:{item.line} ({size(item.bytes)})"
        for item in memory.held
        if item.path and item.bytes
    ][:3]
    unknown = sum(item.bytes for item in memory.held if not item.path)
    sentences = [
        f"device {memory.device} has {size(memory.allocated)} in use of {size(memory.reserved)} reserved, "
        f"and {size(memory.loose)} in fragments."
    ]
    if lines:
        sentences.append(f"Most is held by {joined(lines)}.")
    if unknown:
        sentences.append(f"For {size(unknown)} no line of the program was recorded.")
    if memory.refused:
        sentences.append(f"An allocation was refused {count(len(memory.refused), 'time')}.")
    return " ".join(sentences)


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


def _well(case: Examined) -> str:
    """Health, where all that it requires was seen; else that nothing wrong was found, and what was not seen."""
    who = _who(case.patient)
    passed = sum(isinstance(item, Passed) for item in case.outcomes)
    noted = f"; {count(case.notes, 'note')} worth knowing" if case.notes else ""
    passing = "" if noted else f" ({count(passed, 'check')} passed)"
    missing = health(case).lacks(case)
    if not missing:
        return (
            f"{who} looks healthy{noted}."
            if noted
            else f"{who} looks healthy: {count(passed, 'check')} passed."
        )
    if not passed and not case.notes:
        skipped = sum(isinstance(item, Skipped) and not item.deselected for item in case.outcomes)
        return f"{who}: nothing could be examined ({count(skipped, 'check')} skipped)."
    if nothing_read(case.patient):
        return f"{who}: nothing of it was examined; of this machine, {count(passed, 'check')} passed{noted}."
    return f"{who}: nothing wrong was found{passing}, but {joined(missing)}{noted}."
