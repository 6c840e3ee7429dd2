"""FAIL018 cause-not-in-log."""

from collections.abc import Iterator

from gpudoctor.analysis.job_log.failing_rank import evidence_needed
from gpudoctor.analysis.job_log.findings import log_evidence
from gpudoctor.analysis.job_log.first_cause import LogRole, first_cause
from gpudoctor.analysis.job_log.unexplained import decided_elsewhere
from gpudoctor.lang import say
from gpudoctor.model import Check, Confidence, Facts, Finding, Patient, Reads, Severity
from gpudoctor.text import count


class CauseNotInLog(Check):
    """The log shows only consequences of a death.

    What it finds:
        A job that died and whose log contains only what followed: the launcher's summary, closed connections,
        ranks that were ended. The cause is in another log or was never printed.
    Why it hurts:
        The loudest line is then taken for the cause, and the time goes into the wrong repair.
    How it knows:
        From a job's log: every error line is a consequence of another failure. No line names a cause or a
        symptom. FAIL019 reports an error before these that no check knows.
    False alarms:
        A job that ended well and printed such lines while it ended is not a death.
    Remedies:
        Get the missing evidence: the log of the rank that failed first, its node's kernel log, a flight
        recorder dump.
    References:
        - https://github.com/pytorch/torchtune/issues/1710
        - https://pytorch.org/docs/stable/elastic/errors.html
    """

    code = "FAIL018"
    reads = frozenset({Reads.LOG})
    severity = Severity.ERROR

    def examine(self, patient: Patient) -> Iterator[Finding]:
        log = patient.job_log
        cause = first_cause(log)
        if cause is None or cause.root is not None:
            return
        if log.unknown_errors or decided_elsewhere(patient):
            return  # FAIL019 shows the error
        lines = sum(item.count for item in cause.of(LogRole.CASCADE))
        needed = evidence_needed(log, cause)
        yield self.finding(
            say(
                "The job died, and {error_lines} of this log only follow{s} from a failure that is not in it. {needed}",
                error_lines=count(lines, "error line"),
                s=say("s") if lines == 1 else "",
                needed=needed[0],
            ),
            confidence=Confidence.SUSPECTED,
            evidence=log_evidence(cause),
            breaks=say("the run died"),
            subject="log",
            detail=Facts(needed=" ".join(needed)),
        )
