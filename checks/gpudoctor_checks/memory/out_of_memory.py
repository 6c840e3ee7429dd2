"""MEM009 out-of-memory."""

import re
from collections.abc import Iterator, Mapping

from gpudoctor.analysis import of_run
from gpudoctor.analysis.run.steady_run import measured, spot
from gpudoctor.lang import say
from gpudoctor.lang.message import concatenated
from gpudoctor.model import Cost, Facts, Finding, Patient, Resource, Severity
from gpudoctor.model.check import Check, Reads, Threshold
from gpudoctor.model.evidence import LogLine
from gpudoctor.text import size

_LOADS = re.compile(r"\b(?:model|net|network|unet|vae|pipe\w*|module)\.(?:to|cuda)\(|from_pretrained\(|Trainer\($")
"""The line of the program that puts a model onto the device."""


class OutOfMemory(Check):
    """The run died because the device's memory was full.

    What it finds:
        An out-of-memory error of the device: its step, phase and line. The finding says how much was in use,
        reserved and requested.
    Why it hurts:
        The job ended, often hours after its start: at the first evaluation, the longest batch, the first
        checkpoint.
    How it knows:
        From a recording: the exception with the allocator's numbers, and the memory at the ends of the steps
        before it. From a job's log: the messages that name it, in the exception or line that came first.
    False alarms:
        Another check reports a lack of host memory.
    Remedies:
        The step at which it died shows the cause. In the first step the job is too large. Later it is a leak, a
        longer batch, an evaluation with gradients, or fragmentation.
    References:
        - https://pytorch.org/docs/stable/notes/cuda.html#memory-management
    """

    code = "MEM009"
    reads = frozenset({Reads.RECORDING, Reads.LOG})
    severity = Severity.ERROR
    log_messages_file = "log_messages.toml"
    thresholds = (
        Threshold(
            "others",
            0.1,
            "1",
            "the context of a CUDA process takes 0.3 to 0.6 GiB: a tenth of a small card",
            "If other processes hold more than this share of the GPU, they are the cause in a log.",
        ),
        Threshold(
            "fragmented",
            0.3,
            "1",
            "TraceML: reserved and not allocated 30 % of the device",
            "This share of the device reserved but not in use indicates fragmentation.",
        ),
        Threshold(
            "early",
            3,
            "{steps}",
            "convention: the optimizer allocates its state in the first step",
            "A death within this many steps means that the job does not fit.",
        ),
    )

    def log_kind(self, kind: str, values: Mapping[str, str]) -> str:
        """Whether the allocator's numbers show fragmentation or another process, else what ran."""
        asked, reserved = _bytes(values.get("asked", "")), _bytes(values.get("reserved", ""))
        own, total = _bytes(values.get("own", "")), _bytes(values.get("total", ""))
        free = _bytes(values.get("free", ""))
        if own and total and free is not None and total - own - free > self.limit("others") * total:
            return "other-process"
        if asked and reserved and reserved >= asked:
            return "fragmented"
        if kind == "size" and _LOADS.search(values.get("at", "")):
            return "loading"
        return next((phase for phase in ("optimizer", "generation") if values.get(phase)), kind)

    def examine(self, patient: Patient) -> Iterator[Finding]:
        recording = patient.recorded_run
        told = of_run.death(recording)
        if told is None or told.death is not of_run.Death.MEMORY:
            return

        held = _held(told)
        memory = say("host memory") if _on_host(told) else say("device memory")
        place = of_run.user_place(told)
        spans = [spot(patient, place[0])] if place is not None else []
        cause, words = self._cause(told, held)
        numbers = concatenated(
            ", ", [say("{value} {name}", value=size(value), name=name) for name, value in held.items()]
        )
        when = say(" at step {step}", step=told.step) if told.step is not None else ""
        phase = say(" in {phase}", phase=told.phase) if told.phase not in ("", of_run.OTHER) else ""
        who = (
            say("Rank {process_rank}", process_rank=told.process.rank)
            if told.process is not None and len(recording.ranks) > 1
            else say("The training")
        )
        yield self.finding(
            say(
                "{who} ran out of {memory}{when}{phase}{numbers}; {words}.",
                who=who,
                memory=memory,
                when=when,
                phase=phase,
                numbers=say(" ({numbers})", numbers=numbers) if numbers else "",
                words=words,
            ),
            evidence=(
                *spans,
                LogLine(origin="the training", text=f"{told.kind}: {told.message}"[:300]),
                *(measured(f"memory_{name}", value, "B", recording) for name, value in held.items()),
            ),
            cost=Cost(breaks=say("the run died"), bytes=int(held["requested"]) if "requested" in held else None),
            scarce=Resource.HOST_MEMORY if _on_host(told) else Resource.DEVICE_MEMORY,
            detail=Facts(cause=cause),
        )

    def _cause(self, told: "of_run.DeathMessage", held: dict[str, float]) -> tuple[str, str]:
        total = held.get("total", 0.0)
        loose = held.get("reserved", 0.0) - held.get("allocated", 0.0)
        if total and loose >= self.limit("fragmented") * total:
            return "fragments", say("{loose} was reserved but not in use: fragmentation", loose=size(loose))
        if told.process is not None and of_run.growth(told.process, "rss" if _on_host(told) else "allocated"):
            return "leak", say("its memory had grown with every step")
        if (told.step or 0) < self.limit("early"):
            return "batch", say("its first steps already need more than the device has")
        if told.phase == "evaluation":
            return "evaluation", say("the evaluation needs more than a training step")
        return "batch", say("the steps before it fitted: this batch or sequence is longer")


def _on_host(told: "of_run.DeathMessage") -> bool:
    """Whether the memory that was not there is the host's: a tensor on the CPU."""
    oom = told.record.get("oom") if told.record is not None else None
    return isinstance(oom, Mapping) and oom.get("device") == "cpu"


def _held(told: "of_run.DeathMessage") -> dict[str, float]:
    """The allocator's numbers at the moment, bytes by name."""
    given = told.record.get("oom") if told.record is not None else None
    names = ("allocated", "reserved", "requested", "total")
    if not isinstance(given, dict):
        return {}
    return {name: float(given[name]) for name in names if isinstance(given.get(name), int | float)}


def _bytes(text: str) -> float | None:
    """Bytes of a size as the allocator prints it, such as "15.66 GiB"; None without one."""
    found = re.match(r"([\d.]+) ?([KMGT]?)i?(?:B|bytes)", text)
    return float(found[1]) * 1024 ** " KMGT".index(found[2] or " ") if found else None
