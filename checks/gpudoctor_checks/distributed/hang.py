"""DIST008 hang."""

import math
from collections import Counter
from collections.abc import Iterator, Sequence

from gpudoctor.analysis import of_run
from gpudoctor.analysis.run.steady_run import measured, spot, watched
from gpudoctor.lang import say
from gpudoctor.lang.message import concatenated
from gpudoctor.model import Check, Confidence, Facts, Finding, Patient, Reads, Severity, Threshold, Trait
from gpudoctor.model.evidence import Measurement
from gpudoctor.model.unavailable import Unavailable
from gpudoctor.text import duration
from gpudoctor.text import ranks as named

_BUSY = frozenset({"evaluation", "checkpoint"})
"""Phases that rightly take long."""
_BUSY_LIVE = frozenset({"checkpoint", "compile", "start"})
"""What may stand for long with idle CPUs and devices: disks, compilers of their own, a rendezvous."""
_CROSSED = frozenset({"collective", "sync", "backward"})
"""Phases in which a rank whose main thread takes no CPU time waits for other ranks."""
_STILL_SECONDS = 60.0
"""WATCH-PREFLIGHT: the same stack for a minute; long evaluations and saves have their own limit."""


class Hang(Check):
    """The training hangs.

    What it finds:
        A recording that ends with no step on any rank for minutes. It shows where each rank is, and which rank
        is at a different place.
    Why it hurts:
        A hang blocks all devices until a person notices or a watchdog fires, half an hour later.
    How it knows:
        From a recording: heartbeats that each rank writes when no step has ended for a while, with phase and
        stack.
    False alarms:
        A long evaluation, a save, a compile: for those phases the limit is half an hour.
    Remedies:
        Look at the rank and the line that differ.
    References:
        - https://github.com/intelligent-machine-learning/dlrover
        - https://docs.aws.amazon.com/sagemaker/latest/dg/stalled-training.html
    """

    code = "DIST008"
    traits = frozenset({Trait.STANDSTILL})
    reads = frozenset({Reads.RECORDING, Reads.PROCESS})
    severity = Severity.ERROR
    thresholds = (
        Threshold("hang_seconds", 300, "s", "xpu_timer: 300 s; --hang-after lowers it",
                  "No step for this long at the end of a recording is a hang."),
        Threshold("interrupted_seconds", 30, "s", "convention: a run without a step for this long is ended as it hangs",
                  "No step for this long before a person ended the run is a hang."),
        Threshold("busy_seconds", 1800, "s", "SageMaker's StalledTrainingRule: 1800 s",
                  "In evaluation, checkpoint or compile it must be this long."),
    )  # fmt: skip

    def examine(self, patient: Patient) -> Iterator[Finding]:
        if (window := watched(patient)) is not None:
            yield from self._live(window)
            return
        recording = patient.recorded_run
        if not recording.ranks:
            raise Unavailable(say("no rank reported"))
        everyone = of_run.standing(recording)
        odd = of_run.odd_one(everyone)
        limit = self._limit(recording)
        still = [
            item
            for item in everyone
            if item.silent >= (self.limit("busy_seconds") if item.phase in _BUSY else limit)
            and item.phase != ("data_wait" if len(everyone) == 1 else "")
        ]
        if len(still) < len(everyone):
            return
        listed = [odd, *(item for item in everyone if item is not odd)] if odd is not None else list(everyone)
        yield self.finding(
            say(
                "No step has ended for {still}{who}.",
                still=duration(min(item.silent for item in still)),
                who=_who(listed, odd),
            ),
            evidence=(
                *dict.fromkeys(spot(patient, item.place) for item in listed[:4] if item.place is not None),
                measured("seconds_without_a_step", min(item.silent for item in still), "s", recording),
            ),
            breaks=say("the training makes no progress"),
            subject=f"rank {odd.rank}" if odd is not None else "",
            effect_of="TRAIN010" if of_run.uneven(recording) else None,
            detail=Facts(rank=odd.rank if odd is not None else -1),
        )

    def _live(self, window: "of_run.ProcessWindow") -> Iterator[Finding]:
        """In a watched job: nothing moves on any rank; who stands where, merged, and who stands elsewhere."""
        ranks = [rank for rank in window.ranks if rank.alive]
        if not ranks or any(not rank.samples for rank in ranks):
            raise Unavailable(say("not every rank's stack can be read"))
        groups = Counter(map(_leaf, ranks)).most_common()
        surely = all(of_run.standing_for(rank) >= self._live_limit(rank) for rank in ranks)
        # Ranks that wait for others at several places: nobody computes, so nobody will come.
        crossed = len(groups) > 1 and all(rank.trail and rank.trail[-1][1] in _CROSSED for rank in ranks)
        if not (surely or (crossed and of_run.stands_still(window))) or of_run.works(window, ranks):
            return
        if len(ranks) == 1 and ranks[0].trail[-1][1] == "data_wait":
            return  # the loader's ailment
        odd = [rank for rank in ranks if _leaf(rank) == groups[-1][0] and groups[-1][1] == 1 < len(ranks)][:1]
        names = {leaf: _names([rank for rank in ranks if _leaf(rank) == leaf]) for leaf, _ in groups}
        places = [say("{names} in {leaf}", names=names[leaf], leaf=leaf) for leaf, _ in groups]
        silent, how = min(map(of_run.standing_for, ranks)), of_run.by_hand(window)
        yield self.finding(
            say(
                "{seen} for {silent} on any rank{who}: {places}.",
                seen=of_run.seen(ranks),
                silent=duration(silent),
                who=say("; {title} stands elsewhere", title=odd[0].title) if odd else "",
                places=concatenated("; ", places),
            ),
            evidence=(
                *(span for rank in (odd or ranks)[:4] for span in of_run.spans(rank.places[:1], most=1)),
                Measurement("seconds_without_a_sign", round(silent, 1), "s", reproduce=how),
            ),
            confidence=Confidence.CONFIRMED if surely else Confidence.PROBABLE,
            severity=Severity.ERROR if surely else Severity.WARNING,
            breaks=say("the training makes no progress") if surely else None,
            subject=odd[0].title if odd else "",
            detail=Facts(rank=odd[0].rank if odd and odd[0].rank is not None else -1),
        )

    def _live_limit(self, rank: "of_run.Rank") -> float:
        """Seconds of standing still that are too many in what it does."""
        phase = rank.trail[-1][1] if rank.trail else ""
        steps = 10 * rank.steps.seconds if rank.steps else 0.0
        return self.limit("busy_seconds") if phase in _BUSY_LIVE else max(_STILL_SECONDS, steps)

    def _limit(self, recording: "of_run.Recording") -> float:
        """Seconds without a step that are a hang here."""
        asked = recording.settings.get("hang_after")
        ended = recording.end.stopped_by if recording.end is not None else None
        return min(
            self.limit("hang_seconds"),
            float(asked) if isinstance(asked, int | float) else math.inf,
            self.limit("interrupted_seconds") if ended == "interrupt" else math.inf,
        )


def _who(everyone: "Sequence[of_run.RankPosition]", odd: "of_run.RankPosition | None") -> str:
    """Who stands where, ranks at the same place together."""
    if len(everyone) == 1:
        return say(" ({everyone})", everyone=everyone[0].words)
    groups: dict[str, list[int]] = {}
    for item in everyone:
        groups.setdefault(item.words, []).append(item.rank)
    places = concatenated(
        "; ",
        [say("{ranks}: {place}", ranks=named(numbers), place=words) for words, numbers in list(groups.items())[:4]],
    )
    who = say("they are at these places")
    if odd is not None:
        who = say("rank {odd_rank} is at a different place from the others", odd_rank=odd.rank)
    return say(" on any rank; {who} ({places})", who=who, places=places)


def _leaf(rank: "of_run.Rank") -> str:
    """Where it stands: the library's function that it waits in, and the user's line."""
    place = rank.places[0] if rank.places else None
    if place is None:
        return rank.stack[-1].label if rank.stack else say("an unknown place")
    return say("{via} at {place}", via=place.via, place=place.label) if place.via else place.label


def _names(ranks: "Sequence[of_run.Rank]") -> str:
    """`ranks 0-6`, `rank 7`."""
    numbers = sorted(rank.rank for rank in ranks if rank.rank is not None)
    return named(numbers) if numbers else concatenated(", ", [rank.title for rank in ranks[:4]])
