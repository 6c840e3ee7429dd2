"""DIST009 rank-memory-skew."""

from collections.abc import Iterator
from statistics import median

from gpudoctor.analysis import of_run
from gpudoctor.analysis.run.steady_run import demanded
from gpudoctor.lang import say
from gpudoctor.model import Check, Cost, Facts, Finding, Patient, Reads, Threshold
from gpudoctor.model.unavailable import Unavailable
from gpudoctor.text import percent, size


class RankMemorySkew(Check):
    """One rank needs far more device memory than the others.

    What it finds:
        Peaks of device memory that differ by 20 % of the median or more between ranks. At least one rank uses
        over 30 % of its device.
    Why it hurts:
        The fullest rank sets the batch of all ranks. The memory of the others stays unused, and that rank runs
        out first.
    How it knows:
        From a recording of all ranks: the allocator's peaks.
    False alarms:
        Pipeline stages differ by design; small jobs differ by amounts that do not matter.
    Remedies:
        Find what only that rank allocates: contexts of other processes, an evaluation, everything loaded on
        cuda:0.
    References:
        - https://github.com/traceopt-ai/traceml
    """

    code = "DIST009"
    reads = frozenset({Reads.RECORDING})
    thresholds = (
        Threshold("skew", 0.20, "1", "TraceML 20 %",
                  "A peak this far above the median is a finding."),
        Threshold("pressure", 0.30, "1", "TraceML: 30 % of the device",
                  "A peak below this share of the device is not a finding."),
    )  # fmt: skip

    def examine(self, patient: Patient) -> Iterator[Finding]:
        run = demanded(patient, 1)
        known = [item for item in map(of_run.rank_memory, run.recording.ranks) if item.peak and item.device]
        if len(known) < 2:
            raise Unavailable(say("fewer than two ranks recorded device memory"))
        usual = median(item.peak or 0.0 for item in known)
        worst = max(known, key=lambda item: item.peak or 0.0)
        peak, device = worst.peak or 0.0, worst.device or 1.0
        if peak < (1 + self.limit("skew")) * usual or peak < self.limit("pressure") * device:
            return
        yield self.finding(
            say(
                "Rank {rank} needs {peak} of device memory, the median rank {usual}: {excess} more.",
                rank=worst.rank,
                peak=size(peak),
                usual=size(usual),
                excess=percent(peak / usual - 1),
            ),
            evidence=(
                run.measured(f"rank{worst.rank}_memory_peak", peak, "B"),
                run.measured("median_memory_peak", usual, "B"),
            ),
            cost=Cost(bytes=int(peak - usual)),
            subject=f"rank {worst.rank}",
            detail=Facts(rank=worst.rank),
        )
