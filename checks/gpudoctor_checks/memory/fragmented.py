"""MEM006 fragmented."""

from collections.abc import Iterator

from gpudoctor.analysis import of_run
from gpudoctor.analysis.run.steady_run import demanded
from gpudoctor.lang import say
from gpudoctor.model import Check, Cost, Finding, Patient, Reads, Resource, Threshold
from gpudoctor.model.unavailable import Unavailable
from gpudoctor.text import capitalised, joined, size


class Fragmented(Check):
    """The device's memory is fragmented.

    What it finds:
        An allocator that reserves twice what is in use, or that had to free its cache and retry (allocation
        retries).
    Why it hurts:
        The job cannot use memory that is reserved in fragments. Each retry waits for the device and frees the
        whole cache.
    How it knows:
        From a recording: reserved over allocated memory at the ends of the steps, and the allocator's count of
        retries.
    False alarms:
        Activations are freed at the end of a step, so a factor alone means little. Reserved memory must be 30 %
        of the device, and the peak of used memory well below it.
    Remedies:
        Use expandable segments; use batches of few different lengths.
    References:
        - https://github.com/pytorch/pytorch/issues/35901
    """

    code = "MEM006"
    reads = frozenset({Reads.RECORDING})
    thresholds = (
        Threshold("ratio", 2.0, "1", "TraceML", "Reserved memory of this many times the peak in use is a finding."),
        Threshold("reserved_share", 0.3, "1", "TraceML", "If less of the device is reserved, it is not a finding."),
        Threshold(
            "retries",
            3,
            "{times}",
            "convention: a first long batch causes one or two",
            "This many retries are a finding.",
        ),
    )

    def examine(self, patient: Patient) -> Iterator[Finding]:
        run = demanded(patient)
        if not any(item.reserved for item in map(of_run.rank_memory, run.recording.ranks)):
            raise Unavailable(say("the recording has no device memory"))
        for process in run.recording.ranks:
            memory = of_run.rank_memory(process)
            reserved, used = memory.reserved or 0.0, memory.peak or memory.allocated or 0.0
            retries = max(
                (int(item.get("retries") or 0) for item in process.of("memory") if item.get("kind") == "retries"),
                default=0,
            )
            share = reserved / memory.device if memory.device else 0.0
            loose = used > 0 and reserved >= self.limit("ratio") * used and share >= self.limit("reserved_share")
            if not loose and retries < self.limit("retries"):
                continue
            said = (
                say("{reserved} is reserved for {used} at the peak", reserved=size(reserved), used=size(used))
                if loose
                else ""
            )
            again = say("the allocator freed its cache and retried {retries} times", retries=retries) if retries else ""
            who = say("Rank {process_rank}: ", process_rank=process.rank) if len(run.recording.ranks) > 1 else ""
            words = joined([part for part in (said, again) if part])
            yield self.finding(
                say("{who}{words}.", who=who, words=capitalised(words)),
                evidence=(
                    run.measured("memory_reserved", reserved, "B"),
                    run.measured("memory_peak", used, "B"),
                    run.measured("allocation_retries", retries, "{times}"),
                ),
                cost=Cost(bytes=int(reserved - used) if loose else None),
                subject=f"rank {process.rank}",
                scarce=Resource.DEVICE_MEMORY,
            )
            return
