"""FAIL004 collective-timeout."""

from collections.abc import Iterator

from gpudoctor.analysis import of_run
from gpudoctor.analysis.job_log.beside import in_named_script
from gpudoctor.analysis.job_log.first_cause import first_cause
from gpudoctor.analysis.job_log.flight_verdict import STUCK_SECONDS, FlightKind, FlightVerdict, flight_verdict
from gpudoctor.analysis.run.steady_run import measured, spot
from gpudoctor.lang import say
from gpudoctor.model import Check, Confidence, Facts, Finding, Patient, Reads, Severity, Threshold
from gpudoctor.model.evidence import LogLine, SourceSpan
from gpudoctor.model.records import replace
from gpudoctor.model.signs.flight_recorder import FlightRecords
from gpudoctor.model.unavailable import optional
from gpudoctor.text import ranks as named
from gpudoctor_checks.failure.told_death import told_death


class CollectiveTimeout(Check):
    """A collective operation timed out or did not match.

    What it finds:
        A run that died in a collective: the watchdog's timeout, ranks that called different operations, or a
        peer that disappeared. The finding shows the place of each rank at that moment.
    Why it hurts:
        All ranks wait for the missing one for 10 to 30 minutes, and then die.
    How it knows:
        From a recording: the exceptions of all ranks, whose times and messages separate the root from its
        echoes. Their last step, phase and line. From a job's log: the messages that name it, in the exception
        or line that came first. The rank that failed first printed no timeout, or waited at another line. From
        the dumps of torch's flight recorder, one per rank: the rank that missed a collective or entered another
        one. A rank that waits in another group is not blamed.
    False alarms:
        Dumps of a running job show ranks that are briefly ahead of others. A wait under 10 s does not count,
        by the time of the file: copy dumps with it (`cp -p`). Ranks that die because another one has its own
        exception are echoes: that exception is the finding.
    Remedies:
        Check the rank whose last line differs:
        - a branch that not all ranks take
        - an uneven data set
        - a rank that does more work before a barrier
    References:
        - https://pytorch.org/tutorials/prototype/flight_recorder_tutorial.html
        - https://github.com/huggingface/accelerate/issues/3380
    """

    code = "FAIL004"
    reads = frozenset({Reads.RECORDING, Reads.LOG})
    severity = Severity.ERROR
    thresholds = (
        Threshold("stuck_seconds", STUCK_SECONDS, "s", "convention: a collective takes seconds at most",
                  "An operation of a dump that has waited this long does not complete."),
    )  # fmt: skip
    log_messages_file = "collective_messages.toml"

    def beside_log(self, finding: Finding, patient: Patient) -> Finding:
        """The finding of a log, with the ranks that the dumps of the flight recorder name."""
        records = optional(lambda: patient.flight_records)
        verdict = flight_verdict(records, self.limit("stuck_seconds")) if records is not None else None
        if verdict is None:
            return finding
        sure = verdict.confidence if verdict.kind is FlightKind.UNSEEN else Confidence.CONFIRMED
        return replace(
            finding,
            message=say("{verdict} {message}", verdict=verdict.text, message=finding.message),
            evidence=(*_located(verdict, patient), *finding.evidence),
            confidence=sure,
            detail=_detail(verdict),
        )

    def examine(self, patient: Patient) -> Iterator[Finding]:
        records = optional(lambda: patient.flight_records)
        if records is not None:
            yield from self._dumped(records, patient)
            return
        found = told_death(patient, "COLLECTIVE")
        if found is None:
            return
        recording, death, _ = found
        spans, everyone = found.spans, of_run.standing(recording)
        mismatch = death.record is not None and death.record.type == "signal"
        odd = of_run.odd_one(everyone) if not mismatch else None
        if odd is not None and odd.place is not None:
            spans.insert(0, spot(patient, odd.place))
        who = (
            say(" Rank {odd_rank} was at a different place: {odd}.", odd_rank=odd.rank, odd=odd.words)
            if odd is not None
            else ""
        )
        yield self.finding(
            say("A collective operation failed{step}: {first}.{who}", step=found.when, first=found.first, who=who),
            evidence=(
                *spans,
                found.quoted(),
                *(measured(f"rank{item.rank}_last_step", item.step, "{step}", recording) for item in everyone[:8]),
            ),
            breaks=say("the run died"),
            subject=death.kind,
            detail=Facts(rank=odd.rank if odd is not None else -1, mismatch=mismatch, who=""),
        )

    def _dumped(self, records: FlightRecords, patient: Patient) -> Iterator[Finding]:
        """By the flight recorder alone, where no log names a cause."""
        log = optional(lambda: patient.job_log)
        cause = first_cause(log) if log is not None else None
        if log is not None and (log.finished or (cause is not None and cause.root is not None)):
            return  # what the dumps add to a cause in the log is in `beside_log`
        verdict = flight_verdict(records, self.limit("stuck_seconds"))
        if verdict is None:
            return
        yield self.finding(
            verdict.text,
            evidence=_located(verdict, patient),
            confidence=verdict.confidence,
            breaks=say("the run died") if cause is not None else say("the training makes no progress"),
            subject=_detail(verdict).who,
            detail=_detail(verdict),
        )


def _detail(verdict: FlightVerdict) -> Facts:
    return Facts(
        rank=verdict.ranks[0] if len(verdict.ranks) == 1 else -1,
        mismatch=verdict.kind is FlightKind.MISMATCH,
        recorded=verdict.kind,
        who=named(verdict.ranks) if verdict.ranks else say("each rank"),
    )


def _located(verdict: FlightVerdict, patient: Patient) -> tuple[LogLine | SourceSpan, ...]:
    """The evidence with its lines in the script, where that was named beside the dumps."""
    return tuple(in_named_script(patient, item) if isinstance(item, SourceSpan) else item for item in verdict.evidence)
