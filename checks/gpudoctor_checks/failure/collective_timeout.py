"""FAIL004 collective-timeout."""

from collections.abc import Iterator
from dataclasses import dataclass

from gpudoctor.analysis.run.deaths import Death, death, user_place
from gpudoctor.analysis.run.rank_positions import odd_one, standing
from gpudoctor.analysis.run.steady_run import measured, spot
from gpudoctor.model import Check, Code, Confidence, Cost, Detail, Finding, LogLine, Patient, Reads, Severity


@dataclass(frozen=True, slots=True)
class CollectiveTimeoutDetail(Detail):
    """What the rule reads."""

    rank: int
    """The one that stood elsewhere; -1 where none did."""
    mismatch: bool
    """The ranks called different operations: nobody came late."""


class CollectiveTimeout(Check):
    """A collective operation timed out or did not match.

    What it finds:
        A run that died in a collective: the watchdog's timeout, ranks that called different operations, or a
        peer that disappeared. The finding shows the place of each rank at that moment.
    Why it hurts:
        All ranks wait for the missing one for 10 to 30 minutes, and then die.
    How it knows:
        From a recording: the exceptions of all ranks, whose times and messages separate the root from its
        echoes; their last step, phase and line.
    False alarms:
        Ranks that die because another one has an exception of its own are echoes: that exception is the
        finding.
    Remedies:
        Look at the rank whose last line differs: a branch that not all ranks take, an uneven data set, or a
        rank that does more work before a barrier.
    References:
        - https://pytorch.org/tutorials/prototype/flight_recorder_tutorial.html
        - https://github.com/huggingface/accelerate/issues/3380
    """

    code = Code("FAIL004")
    name = "collective-timeout"
    reads = frozenset({Reads.RECORDING})
    severity = Severity.ERROR

    def examine(self, patient: Patient) -> Iterator[Finding]:
        recording = patient.recorded_run
        told = death(recording)
        if told is None or told.death is not Death.COLLECTIVE:
            return

        place = user_place(told)
        spans = [spot(patient, place[0])] if place is not None else []
        everyone = standing(recording)
        mismatch = told.record is not None and told.record.type == "signal"
        odd = odd_one(everyone) if not mismatch else None
        if odd is not None and odd.place is not None:
            spans.insert(0, spot(patient, odd.place))
        who = f" Rank {odd.rank} was at a different place: {odd.words}." if odd is not None else ""
        first = told.message.strip().split(chr(10))[0][:200]
        yield self.finding(
            f"A collective operation failed{f' at step {told.step}' if told.step else ''}: {first}.{who}",
            evidence=(
                *spans,
                LogLine(origin="the training", text=f"{told.kind}: {told.message}"[:400]),
                *(
                    measured(f"rank{item.rank}_last_step", item.step, "{step}", recording)
                    for item in everyone[:8]
                ),
            ),
            confidence=Confidence.CONFIRMED,
            cost=Cost(breaks="the run died"),
            subject=told.kind,
            detail=CollectiveTimeoutDetail(odd.rank if odd is not None else -1, mismatch),
        )
