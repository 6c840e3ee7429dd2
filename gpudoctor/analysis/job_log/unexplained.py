"""Whether a log that names no first cause has an error at its end that no check knows."""

from gpudoctor.analysis.job_log.first_cause import FirstCause, first_cause
from gpudoctor.analysis.job_log.flight_verdict import STUCK_SECONDS, flight_verdict
from gpudoctor.analysis.run.deaths import death
from gpudoctor.model import Patient
from gpudoctor.model.signs.job_log import UnknownError
from gpudoctor.model.unavailable import optional


def decided_elsewhere(patient: Patient) -> bool:
    """Whether something beside the log's words names the cause: flight recorder, recording."""
    dumps = optional(lambda: patient.flight_records)
    if dumps is not None and flight_verdict(dumps, STUCK_SECONDS) is not None:
        return True
    recording = optional(lambda: patient.recorded_run)
    told = death(recording) if recording is not None and recording.ranks else None
    return told is not None and bool(told.kind)  # a rank recorded its exception or signal


def unexplained_error(patient: Patient) -> tuple[UnknownError, FirstCause | None] | None:
    """The error, and the consequences behind it; None where a cause is named or no such error was printed."""
    log = patient.job_log
    cause = first_cause(log)
    errors = [item for item in log.unknown_errors if cause is not None or not item.at_death]
    if not errors or (cause is not None and cause.root is not None) or decided_elsewhere(patient):
        return None
    return errors[0], cause
