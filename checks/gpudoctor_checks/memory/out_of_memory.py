"""MEM009 out-of-memory."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from gpudoctor.analysis.run.deaths import Death, DeathMessage, death, user_place
from gpudoctor.analysis.run.line_costs import LinePlace
from gpudoctor.analysis.run.memory_growth import growth
from gpudoctor.analysis.run.steady_run import measured, spot
from gpudoctor.analysis.run.steady_state import OTHER
from gpudoctor.analysis.workload import optional
from gpudoctor.model import (
    Check,
    Code,
    Confidence,
    Cost,
    Detail,
    Finding,
    LogLine,
    Patient,
    Reads,
    Resource,
    Severity,
    Threshold,
    Unavailable,
)
from gpudoctor.model.signs.memory_snapshot import MemorySnapshot
from gpudoctor.text import count, size


@dataclass(frozen=True, slots=True)
class OutOfMemoryDetail(Detail):
    """What the rule reads."""

    cause: str
    """`fragments`, `leak`, `evaluation` or `batch`."""


class OutOfMemory(Check):
    """The run died because the device's memory was full.

    What it finds:
        An out-of-memory error of the device: at which step, phase and line, and how much was in use, reserved
        and requested.
    Why it hurts:
        The job ended, often hours after its start: at the first evaluation, the longest batch, the first
        checkpoint.
    How it knows:
        From a recording: the exception with the allocator's numbers at that moment, and the memory at the ends
        of the steps before it. From a memory snapshot: the refused allocations of its history.
    False alarms:
        Another check reports a lack of host memory.
    Remedies:
        The step at which it died shows the cause. In the first step the job is too large. Later it is a leak, a
        longer batch, an evaluation with gradients, or fragmentation.
    References:
        - https://pytorch.org/docs/stable/notes/cuda.html#memory-management
        - https://github.com/huggingface/accelerate
    """

    code = Code("MEM009")
    name = "out-of-memory"
    reads = frozenset({Reads.RECORDING})
    severity = Severity.ERROR
    thresholds = (
        Threshold(
            name="fragmented",
            default=0.3,
            unit="1",
            source="TraceML: reserved and not allocated 30 % of the device",
            meaning="This share of the device reserved but not in use indicates fragmentation.",
        ),
        Threshold(
            name="early",
            default=3,
            unit="{steps}",
            source="convention: the optimizer allocates its state in the first step",
            meaning="A death within this many steps means that the job does not fit.",
        ),
    )

    def examine(self, patient: Patient) -> Iterator[Finding]:
        snapshot = optional(lambda: patient.memory_snapshot)
        if snapshot is not None:
            yield from self._refused(patient, snapshot)
            return
        recording = patient.recorded_run
        told = death(recording)
        if told is None or told.death is not Death.MEMORY:
            return

        held = _held(told)
        whose = "host" if _on_host(told) else "device"
        place = user_place(told)
        spans = [spot(patient, place[0])] if place is not None else []
        cause, words = self._cause(told, held)
        numbers = ", ".join(f"{size(value)} {name}" for name, value in held.items())
        when = f" at step {told.step}" if told.step is not None else ""
        phase = f" in {told.phase}" if told.phase not in ("", OTHER) else ""
        who = (
            f"Rank {told.process.rank}"
            if told.process is not None and len(recording.ranks) > 1
            else "The training"
        )
        yield self.finding(
            f"{who} ran out of {whose} memory{when}{phase}{f' ({numbers})' if numbers else ''}; {words}.",
            evidence=(
                *spans,
                LogLine(origin="the training", text=f"{told.kind}: {told.message}"[:300]),
                *(measured(f"memory_{name}", value, "B", recording) for name, value in held.items()),
            ),
            confidence=Confidence.CONFIRMED,
            cost=Cost(breaks="the run died", bytes=int(held["requested"]) if "requested" in held else None),
            scarce=frozenset({Resource.HOST_MEMORY if _on_host(told) else Resource.DEVICE_MEMORY}),
            detail=OutOfMemoryDetail(cause),
        )

    def _refused(self, patient: Patient, snapshot: MemorySnapshot) -> Iterator[Finding]:
        """The last allocation that failed in the history of a snapshot, for each device."""
        if not snapshot.events:
            raise Unavailable("the memory snapshot has no history of allocations")
        for memory in snapshot.devices:
            if not memory.refused:
                continue
            last = memory.refused[-1]
            held = {"allocated": last.allocated, "reserved": last.reserved, "free": last.free}
            known = {name: value for name, value in held.items() if value is not None}
            total = known.get("reserved", 0) + known.get("free", 0)
            loose = known.get("reserved", 0) - known.get("allocated", 0)
            fragments = len(known) == len(held) and loose >= self.limit("fragmented") * total
            why = f"; {size(loose)} was reserved but not in use: fragmentation" if fragments else ""
            numbers = ", ".join(f"{size(value)} {name}" for name, value in known.items())
            many = len(memory.refused)
            again = f", the last of {count(many, 'refused allocation')}" if many > 1 else ""
            at = last.at
            yield self.finding(
                f"Device {memory.device} had no memory for {size(last.requested)}{again} ({numbers}){why}.",
                evidence=(
                    *([spot(patient, LinePlace(path=at.path, line=at.line))] if at.path else []),
                    *(
                        measured(f"memory_{name}", value, "B", snapshot)
                        for name, value in {"requested": last.requested, **known}.items()
                    ),
                ),
                confidence=Confidence.CONFIRMED,
                cost=Cost(breaks="the allocation failed", bytes=last.requested),
                subject=f"device {memory.device}",
                scarce=frozenset({Resource.DEVICE_MEMORY}),
                detail=OutOfMemoryDetail("fragments" if fragments else "batch"),
            )

    def _cause(self, told: DeathMessage, held: dict[str, float]) -> tuple[str, str]:
        total = held.get("total", 0.0)
        loose = held.get("reserved", 0.0) - held.get("allocated", 0.0)
        if total and loose >= self.limit("fragmented") * total:
            return "fragments", f"{size(loose)} was reserved but not in use: fragmentation"
        if told.process is not None and growth(told.process, "rss" if _on_host(told) else "allocated"):
            return "leak", "its memory had grown with every step"
        if (told.step or 0) < self.limit("early"):
            return "batch", "its first steps already need more than the device has"
        if told.phase == "evaluation":
            return "evaluation", "the evaluation needs more than a training step"
        return "batch", "the steps before it fitted: this batch or sequence is longer"


def _on_host(told: DeathMessage) -> bool:
    """Whether the memory that was not there is the host's: a tensor on the CPU."""
    oom = told.record.get("oom") if told.record is not None else None
    return isinstance(oom, Mapping) and oom.get("device") == "cpu"


def _held(told: DeathMessage) -> dict[str, float]:
    """The allocator's numbers at the moment, bytes by name."""
    given = told.record.get("oom") if told.record is not None else None
    names = ("allocated", "reserved", "requested", "total")
    if not isinstance(given, dict):
        return {}
    return {name: float(given[name]) for name in names if isinstance(given.get(name), int | float)}
