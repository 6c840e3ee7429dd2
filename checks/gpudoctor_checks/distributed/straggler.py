"""DIST001 straggler."""

from collections.abc import Iterator
from statistics import median

from gpudoctor.analysis import of_run
from gpudoctor.analysis.run.steady_run import demanded, spot, watched
from gpudoctor.lang import say
from gpudoctor.model import Check, Detail, Finding, Patient, Reads, Threshold, Whose
from gpudoctor.model.records import frozen
from gpudoctor.model.unavailable import Unavailable
from gpudoctor.text import capitalised, duration, percent


@frozen
class StragglerDetail(Detail):
    """What the rule reads."""

    rank: int
    node: str
    part: str
    """Of the step in which it is late; \"\" where not known."""


class StragglingRank(Check):
    """One rank is late in every step, and the others wait for it.

    What it finds:
        A rank that works longer than the median of the others, step after step. The finding names the rank, its
        node, the delay, the phase and the line.
    Why it hurts:
        The slowest rank sets the pace. Ten percent on one rank of a thousand costs all thousand ranks ten
        percent.
    How it knows:
        From a recording of all ranks, aligned by step. A rank's own work is its step without the phases in
        which ranks wait for each other. It must be late by 1 ms and 10 % of the step, over 100 steps or 10 s.
        The difference must be significant (Wilcoxon, p under 0.001). The cause is named if it covers 80 % of
        the delay.
    False alarms:
        Ranks that are late in turn are not stragglers. Delays under a millisecond are noise of shared cores.
        Pipeline stages differ by design.
    Remedies:
        Fix the cause: its data, its host or its card.
    References:
        - https://github.com/traceopt-ai/traceml
        - https://github.com/NVIDIA/nvidia-resiliency-ext
    """

    code = "DIST001"
    reads = frozenset({Reads.RECORDING, Reads.PROCESS})
    thresholds = (
        *Threshold.note_and_warning(
            "A delay of this share of the step is",
            noted=0.10,
            warned=0.20,
            source="TraceML 10 %",
            source_warned="TraceML 20 %",
        ),
        Threshold("covered", 0.8, "1", "TraceML: 80 %",
                  "A part of the step must explain this share of the delay to be its cause."),
    )  # fmt: skip

    def examine(self, patient: Patient) -> Iterator[Finding]:
        if (window := watched(patient)) is not None:
            yield from self._live(window)
            return
        run = demanded(patient)
        table = of_run.aligned(run.recording)
        if table is None:
            raise Unavailable(say("the recording has one rank"))
        if not table.enough:
            least = of_run.LEAST_ALIGNED
            raise Unavailable(
                say("the ranks have {steps} steady steps in common; {least} are needed", steps=table.steps, least=least)
            )
        late = of_run.straggler(run.recording)
        if late is None or (severity := self.level(late.share)) is None:
            return
        process = next(rank for rank in run.recording.ranks if rank.rank == late.rank)
        part, seconds = next(iter(late.parts.items()))
        named = seconds >= self.limit("covered") * late.seconds
        spans = [spot(patient, item.place) for item in of_run.by_line(of_run.lines(process), part)[:3]] if named else []
        cause = say("; the delay is in {part}", part=_words(part)) if named else ""
        yield of_run.seen_in_run(run, late.share, spans, whose=Whose.DEVICE).finding(
            self,
            say(
                "Rank {rank} on {node} is late by {seconds} in every step, {share} of it, and the others wait"
                "{cause}{at}.",
                rank=late.rank,
                node=process.node,
                seconds=duration(late.seconds),
                share=percent(late.share),
                cause=cause,
                at=of_run.at(spans),
            ),
            name="straggler_share",
            severity=severity,
            detail=StragglerDetail(rank=late.rank, node=process.node, part=part if named else ""),
            numbers=(run.measured("straggler_seconds", late.seconds, "s"), run.measured("straggler_p", late.p)),
        )

    def _live(self, window: "of_run.ProcessWindow") -> Iterator[Finding]:
        """In a watched job: the rank that waits least for the others, and what it does instead."""
        ranks = [rank for rank in window.ranks if rank.alive]
        if len(ranks) < 2:
            raise Unavailable(say("the job has one rank"))
        if of_run.stands_still(window):
            raise Unavailable("nothing moved on any rank: no rank is late")
        if min(rank.samples for rank in ranks) < of_run.LEAST_LOOKS:
            raise Unavailable(say("fewer than {count} stack samples of each rank so far", count=of_run.LEAST_LOOKS))
        waits = {rank.pid: of_run.phase_share(rank, *of_run.WAITS) for rank in ranks}
        late = min(ranks, key=lambda rank: waits[rank.pid])
        others = [rank for rank in ranks if rank is not late]
        lost = median(waits[rank.pid] for rank in others) - waits[late.pid]
        part, excess = _excess(late, others)
        places = tuple(place for place in late.places if place.phase == part)
        seen = of_run.seen_at(window, places, lost, sum(rank.samples for rank in others), whose=Whose.DEVICE)
        if (severity := seen.level(self)) is None:
            return
        named = excess >= self.limit("covered") * lost
        cause = say("; its delay is in {part}{where}", part=_words(part), where=of_run.where(places))
        yield seen.finding(
            self,
            say(
                "{rank} makes the others wait, {lost} of their time{cause}.",
                rank=capitalised(late.title),
                lost=percent(lost),
                cause=cause if named else "",
            ),
            name="straggler_share",
            severity=severity,
            detail=StragglerDetail(rank=late.rank or 0, node="", part=part if named else ""),
        )


def _words(part: str) -> str:
    return say("lines of its own") if part == of_run.OTHER else part.replace("_", " ")


def _excess(late: "of_run.Rank", others: "list[of_run.Rank]") -> tuple[str, float]:
    """The phase that the late rank spends more time in than the others do, and how much more."""
    phases = [phase for phase in late.phases if phase not in of_run.WAITS] or [of_run.OTHER]
    more = {
        phase: of_run.phase_share(late, phase) - median(of_run.phase_share(rank, phase) for rank in others)
        for phase in phases
    }
    return max(more.items(), key=lambda item: item[1])
