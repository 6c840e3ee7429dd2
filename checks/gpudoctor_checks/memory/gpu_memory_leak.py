"""MEM001 gpu-memory-leak."""

from collections.abc import Iterator

from gpudoctor.analysis import of_run
from gpudoctor.analysis.run.steady_run import demanded, spot, watched
from gpudoctor.lang import say
from gpudoctor.model import Check, Cost, Finding, Patient, Reads, Resource, Severity, Trait
from gpudoctor.model.proof import LeakDetail
from gpudoctor.model.unavailable import Unavailable
from gpudoctor_checks.thresholds import DAY, GROWN_BYTES


class GpuMemoryLeak(Check):
    """The device's memory grows with every step.

    What it finds:
        Memory of the device's allocator that rises from step to step. It is measured at the ends of steps, when
        activations are freed. The finding gives the rate, its significance, the time until the device is full,
        and the lines.
    Why it hurts:
        The run dies, usually hours later, at a step that has nothing to do with the cause.
    How it knows:
        From a recording: Theil-Sen slope and Mann-Kendall test (p under 0.001) over the steps after the first
        ones. The second half must still grow: caches, allocators and optimizer states stop growing. If there
        are counts of objects, the finding names what grew.
    False alarms:
        Batches of different lengths vary but do not rise. A plateau is not reported, nor is growth of less than
        16 MiB.
    Remedies:
        By what grew: detach what you keep, limit what you collect, and keep no tensors in long-lived lists.
    References:
        - https://github.com/ray-project/ray/pull/40940
    """

    code = "MEM001"
    judges = "memory growth"
    traits = frozenset({Trait.DEVICE_MEMORY_GROWS})
    reads = frozenset({Reads.RECORDING, Reads.PROCESS})
    thresholds = (GROWN_BYTES, DAY)

    def examine(self, patient: Patient) -> Iterator[Finding]:
        if (window := watched(patient)) is not None:
            yield from self._live(window)
            return
        run = demanded(patient, 50)
        if not any(of_run.memory_readings(state.process, "allocated") for state in run.states):
            raise Unavailable(say("the recording has no device memory"))
        found = [(of_run.growth(state.process, "allocated"), state.process) for state in run.states]
        grown, process = max(found, key=lambda item: item[0].per_step if item[0] else 0.0)
        if grown is None or grown.bytes < self.limit("grown"):
            return
        device = of_run.rank_memory(process).device
        soon = device is not None and grown.seconds_to(device) <= self.limit("day")
        things = of_run.growing_things(process, "cuda")
        who = say(" of rank {process_rank}", process_rank=process.rank) if len(run.states) > 1 else ""
        what = say("; what grew: {thing}", thing=things[0].words) if things else ""
        full = grown.projection(device) if device is not None else ""
        yield self.finding(
            grown.sentence(say("The device memory"), who, full, what),
            evidence=(
                *(spot(patient, item.place) for item in things[:3] if item.place is not None),
                run.measured("bytes_per_step", grown.per_step, "B"),
                run.measured("memory_at_end", grown.last, "B"),
            ),
            severity=Severity.ERROR if soon else Severity.WARNING,
            cost=Cost(breaks=say("the device runs out of memory") if soon else None, bytes=int(grown.bytes)),
            subject=f"rank {process.rank}",
            scarce=Resource.DEVICE_MEMORY,
            detail=LeakDetail(),
        )

    def _live(self, window: "of_run.ProcessWindow") -> Iterator[Finding]:
        """In a watched job: bytes that a rank holds on its GPUs."""
        if not any(rank.device_memory.values for rank in window.ranks):
            raise Unavailable(say("the driver does not report how much device memory the processes hold"))
        of_run.long_enough(window)
        found = [one for rank in window.ranks if (one := of_run.growing(rank, rank.device_memory))]
        worst = max(found, key=lambda one: one.rate, default=None)
        if worst is None or worst.trend.growth < self.limit("grown"):
            return
        cards = [gpu for gpu in of_run.job_gpus(window) if gpu.index in worst.rank.gpus and gpu.memory_total]
        room = sum(float(gpu.memory_total or 0) - gpu.memory.last for gpu in cards if gpu.memory.known())
        total = worst.now + room if cards else None
        breaks = say("the device runs out of memory")
        yield of_run.leak(self, worst, "The device memory", total, breaks, Resource.DEVICE_MEMORY)
