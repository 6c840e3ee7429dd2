"""MEM005 near-limit."""

from collections.abc import Iterator

from gpudoctor.analysis import of_run
from gpudoctor.analysis.run.steady_run import demanded, watched
from gpudoctor.lang import say
from gpudoctor.model import Check, Finding, Measurement, Patient, Reads, Resource, Severity, Threshold
from gpudoctor.model.unavailable import Unavailable
from gpudoctor.text import percent, size


class NearLimit(Check):
    """The device's memory is nearly full.

    What it finds:
        A peak of the device's memory at 92 % of it or more.
    Why it hurts:
        The next longer batch, an evaluation or fragmentation ends the run. The allocator returns memory to the
        driver and requests it again, which waits for the device.
    How it knows:
        From a recording: the allocator's peak reserved memory against the device's, on each rank. For a watched
        job: the maximum that the driver counts on its cards in the window.
    False alarms:
        A job that fills the card on purpose and whose shapes never change runs well. Below 97 % it is a note.
    Remedies:
        Make the cheapest change that saves some gigabytes.
    References:
        - https://github.com/traceopt-ai/traceml
    """

    code = "MEM005"
    reads = frozenset({Reads.RECORDING, Reads.PROCESS})
    severity = Severity.NOTE
    thresholds = (
        *Threshold.note_and_warning(
            "A peak of this share of the device is",
            noted=0.92,
            warned=0.97,
            source="TraceML 92 %",
            source_warned="TraceML 97 %",
        ),
    )

    def examine(self, patient: Patient) -> Iterator[Finding]:
        if (window := watched(patient)) is not None:
            yield from self._live(window)
            return
        run = demanded(patient, 1)
        known = [
            item
            for item in map(of_run.rank_memory, run.recording.ranks)
            if item.device and (item.reserved or item.peak)
        ]
        if not known:
            raise Unavailable(say("the recording has no device memory"))
        shares = {item.rank: max(item.reserved or 0.0, item.peak or 0.0) / (item.device or 1.0) for item in known}
        rank = max(shares, key=shares.__getitem__)
        severity = self.level(shares[rank])
        if severity is None:
            return
        worst = next(item for item in known if item.rank == rank)
        who = say("Rank {rank}", rank=rank) if len(known) > 1 else say("The training")
        yield self.finding(
            say(
                "{who} used {share} of its device's {memory}.",
                who=who,
                share=percent(shares[rank]),
                memory=size(worst.device or 0.0),
            ),
            evidence=(
                run.measured("memory_peak_share", shares[rank]),
                run.measured("memory_peak", shares[rank] * (worst.device or 0.0), "B"),
            ),
            severity=severity,
            subject=f"rank {rank}",
            scarce=Resource.DEVICE_MEMORY,
        )

    def _live(self, window: "of_run.ProcessWindow") -> Iterator[Finding]:
        """In a watched job: the most that the driver has counted on a card of the job's in the window."""
        cards = [gpu for gpu in of_run.job_gpus(window) if gpu.memory_total and gpu.memory.known()]
        if not cards:
            raise Unavailable(say("no GPU of the job reports its memory"))
        shares = {gpu.index: max(gpu.memory.known()) / float(gpu.memory_total or 1) for gpu in cards}
        index = max(shares, key=shares.__getitem__)
        share, total = shares[index], next(gpu.memory_total or 0 for gpu in cards if gpu.index == index)
        if share < self.limit("share_noted"):
            return
        yield self.finding(
            say(
                "GPU {gpu} has had {share} of its {memory} in use.",
                gpu=index, share=percent(share), memory=size(total),
            ),
            evidence=(
                Measurement(
                    "memory_peak_share", round(share, 4), "1",
                    reproduce="nvidia-smi --query-gpu=memory.used,memory.total --format=csv",
                ),
            ),
            severity=Severity.WARNING if share >= self.limit("share_warned") else Severity.NOTE,
            subject=f"GPU {index}",
            scarce=Resource.DEVICE_MEMORY,
        )  # fmt: skip
