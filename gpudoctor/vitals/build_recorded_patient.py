"""From a recording to a patient: a run of another day, maybe another machine; its script if unchanged."""

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gpudoctor.lang import say
from gpudoctor.model import LogMessage, Patient, PatientKind, Sign, Signs, Unavailable
from gpudoctor.model.signs.job import Environment
from gpudoctor.model.signs.recording import Recording
from gpudoctor.vitals.build_patient import command_title
from gpudoctor.vitals.job.launch import find_launch

if TYPE_CHECKING:
    from gpudoctor.model.signs.job import Job
    from gpudoctor.model.signs.job_log import JobLog
    from gpudoctor.model.signs.source import Source


def admit_recording(
    recording: Recording, targets: Sequence[str], messages: Iterable[tuple[str, LogMessage]] = ()
) -> Patient:
    """A patient whose signs are those of the recording; this machine's are not taken, it may be another one.

    `messages` is what to find in the tracebacks of processes that died before they imported torch.
    """
    if not recording.holds_run:
        return _of_file(recording, targets)
    environment = Environment(variables=recording.environment, origin="environment of the run")
    no_environment = Sign[Environment].missing("the environment", say("the recording has no environment variables"))
    return Patient(
        PatientKind.RECORDING,
        command_title(recording.command) if recording.command else Path(recording.path).name,
        Signs(
            recording=Sign.of("the recording", recording),
            environment=Sign.of("the environment", environment) if recording.environment else no_environment,
            job=Sign("the job", lambda: _job(recording)),
            source=Sign("the source", lambda: _source(recording)),
            job_log=Sign("the log", lambda: _log(recording, messages)),
        ),
        targets=tuple(targets),
    )


def _log(recording: Recording, messages: Iterable[tuple[str, LogMessage]]) -> "JobLog":
    if not recording.early_deaths:
        raise Unavailable("no log was named")
    from gpudoctor.vitals.last_output import read_last_output

    return read_last_output(recording, messages)


def _of_file(recording: Recording, targets: Sequence[str]) -> Patient:
    """A log of one thing alone: no run and no job was seen, so no check of one has looked at anything."""
    what = recording.origin
    assert recording.kernel_log is not None
    signs = Signs(
        recording=Sign.missing("the recording", say("a {what} contains no run", what=what)),
        kernel_log=Sign.of("the kernel log", recording.kernel_log),
        job=Sign.missing("the job", say("a {what} names no job", what=what)),
        source=Sign.missing("the source", say("a {what} names no script", what=what)),
    )
    return Patient(PatientKind.RECORDING, Path(recording.path).name, signs, targets=tuple(targets))


def _job(recording: Recording) -> "Job":
    from gpudoctor.vitals.job import read_job

    return read_job(None, recording.environment, command=recording.command)


def _source(recording: Recording) -> "Source":
    """The script that was run, as it was then."""
    found = find_launch(recording.command) if recording.command else None
    if found is None or found.script is None:
        raise Unavailable("the recording names no script")
    path = Path(recording.cwd) / found.script
    from gpudoctor.vitals.ran_source import read_ran

    here = os.getcwd()
    shown = path.relative_to(here) if path.is_relative_to(here) else path
    if os.path.normpath(path) not in recording.scripts:
        raise Unavailable("the recording does not contain the script")
    return read_ran([shown], {str(shown): found.arguments}, recording, {})
