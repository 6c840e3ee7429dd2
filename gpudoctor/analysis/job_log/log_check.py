"""Base of the checks whose ailment shows in a log alone."""

from collections.abc import Iterator

from gpudoctor.model import Check, Finding, Patient, Reads, Severity


class LogCheck(Check):
    """A check that consists of its manual page and its `log_messages`: the engine makes the finding."""

    reads = frozenset({Reads.LOG})
    severity = Severity.ERROR

    def examine(self, patient: Patient) -> Iterator[Finding]:
        """Nothing further; raises `Unavailable` where no log was named."""
        _ = patient.job_log
        return iter(())
