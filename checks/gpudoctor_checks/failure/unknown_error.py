"""FAIL019 unknown-error."""

from collections.abc import Iterator

from gpudoctor.analysis.job_log.findings import log_evidence
from gpudoctor.analysis.job_log.unexplained import unexplained_error
from gpudoctor.lang import say
from gpudoctor.model import Check, Confidence, Facts, Finding, LogLine, Patient, Reads, Severity


class UnknownErrorAtEnd(Check):
    """The log ends with an error that no check knows.

    What it finds:
        A log that names no failure which gpudoctor knows. One of its last lines calls itself an error, or the
        very last line has the words of an error. Or the log ends within a traceback.
    Why it hurts:
        It may be why the job ended. gpudoctor knows the messages of many libraries, and not those of all
        programs.
    How it knows:
        From a job's log: the line has the level of an error, or begins with its word. No step and no sign of a
        good end follows it. If consequences of a death follow, the line is sought before these.
    False alarms:
        A program may print an error and end well. The finding is a suspicion for that reason, and a warning
        if nothing else shows that the job died.
    Remedies:
        Read the line, and search for its words in the program or library that printed it.
    References:
        - https://docs.python.org/3/library/logging.html#logging-levels
    """

    code = "FAIL019"
    reads = frozenset({Reads.LOG})

    def examine(self, patient: Patient) -> Iterator[Finding]:
        found = unexplained_error(patient)
        if found is None:
            return
        error, cause = found
        who = say("Rank {rank}: ", rank=error.rank) if error.rank is not None else ""
        said = error.text[:200].rstrip(".")
        words = (
            say("{who}The log ends within a traceback, before its exception: {said}.", who=who, said=said)
            if error.cut
            else say("{who}The log ends with an error that no check knows: {said}.", who=who, said=said)
            if cause is None
            else say(
                "{who}Line {line:,} may be the first cause; no check knows it: {said}.",
                who=who,
                line=error.line,
                said=said,
            )
        )
        shown = LogLine(origin=error.path, text=error.text[:300], line=error.line, time=error.stamp or None)
        yield self.finding(
            words,
            confidence=Confidence.SUSPECTED,
            evidence=(shown, *(log_evidence(cause) if cause is not None else ())),
            severity=Severity.WARNING if cause is None else Severity.ERROR,
            breaks=say("the run may have died of it"),
            subject="log",
            detail=Facts(said=said),
        )
