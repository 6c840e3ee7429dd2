"""MEM006 fragmented."""

from collections.abc import Iterator

from gpudoctor.analysis import of_run
from gpudoctor.analysis.run.steady_run import demanded, measured
from gpudoctor.analysis.workload import optional
from gpudoctor.lang import say
from gpudoctor.model import Check, Code, Confidence, Cost, Finding, Patient, Reads, Resource, Severity, Threshold
from gpudoctor.model.signs.memory_snapshot import MemorySnapshot
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
        retries. From a memory snapshot with a history: the memory of segments in use, over the peak. It is a
        note, because a snapshot does not contain the device's size.
    False alarms:
        Activations are freed at the end of a step, so a factor alone means little. Reserved memory must be 30 %
        of the device, and the peak of used memory well below it.
    Remedies:
        Use expandable segments; use batches of few different lengths.
    References:
        - https://github.com/pytorch/pytorch/issues/35901
        - https://pytorch.org/docs/stable/notes/cuda.html#optimizing-memory-usage-with-pytorch-cuda-alloc-conf
    """

    code = Code("MEM006")
    name = "fragmented"
    reads = frozenset({Reads.RECORDING})
    thresholds = (
        Threshold(
            name="ratio",
            default=2.0,
            unit="1",
            source="TraceML",
            meaning="Reserved memory of this many times the peak in use is a finding.",
        ),
        Threshold(
            name="reserved_share",
            default=0.3,
            unit="1",
            source="TraceML",
            meaning="If less of the device is reserved, it is not a finding.",
        ),
        Threshold(
            name="retries",
            default=3,
            unit="{times}",
            source="convention: a first long batch causes one or two",
            meaning="This many retries are a finding.",
        ),
    )

    def examine(self, patient: Patient) -> Iterator[Finding]:
        if (snapshot := optional(lambda: patient.memory_snapshot)) is not None:
            yield from self._loose(snapshot)
            return
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
                confidence=Confidence.CONFIRMED,
                cost=Cost(bytes=int(reserved - used) if loose else None),
                subject=f"rank {process.rank}",
                scarce=frozenset({Resource.DEVICE_MEMORY}),
            )
            return

    def _loose(self, snapshot: MemorySnapshot) -> Iterator[Finding]:
        """Segments of a snapshot that cannot be given back and hold far more than was ever in use at a time."""
        if all(memory.peak is None for memory in snapshot.devices):
            raise Unavailable(say("the memory snapshot has no history, so the peak in use is unknown"))
        for memory in snapshot.devices:
            peak, bound = memory.peak or 0, memory.allocated + memory.loose
            if not peak or bound < self.limit("ratio") * peak:
                continue
            values = {"memory_bound": bound, "memory_peak": peak, "memory_loose": memory.loose}
            yield self.finding(
                say(
                    "Device {device}: segments in use reserve {bound}, but at most {peak} was "
                    "in use at a time. {loose} is free but cannot be released.",
                    device=memory.device,
                    bound=size(bound),
                    peak=size(peak),
                    loose=size(memory.loose),
                ),
                evidence=tuple(measured(name, value, "B", snapshot) for name, value in values.items()),
                confidence=Confidence.PROBABLE,
                severity=Severity.NOTE,
                cost=Cost(bytes=memory.loose),
                subject=f"device {memory.device}",
                scarce=frozenset({Resource.DEVICE_MEMORY}),
            )
