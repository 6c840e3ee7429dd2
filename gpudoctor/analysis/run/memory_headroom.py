"""Room on the device in a recorded run: memory that stayed empty while the card had little to do."""

import math
from statistics import mean

from gpudoctor.analysis.run.run_numbers import GpuUse, RankMemory, rank_memory, run_numbers
from gpudoctor.analysis.run.steady_run import Run, measured
from gpudoctor.lang import say
from gpudoctor.model.evidence import Measurement
from gpudoctor.model.finding import Detail
from gpudoctor.model.records import frozen

CAUSES = {
    "data_wait": say("waiting for data"),
    "transfer": say("copies to the device"),
    "sync": say("reading values back"),
    "logging": "logging",
    "checkpoint": "saving",
    "evaluation": "evaluation",
    "profiler": "a profiler",
    "collective": "collectives",
    "other": say("the program's own lines"),
}
"""Parts of a step in which a card has nothing to do, in words."""
EXPLAINS = 0.10
"""A part of the step that takes this share explains idle cards (the threshold of DATA001)."""
BUSY = 0.70
"""A card that is busy for less has little to do (the threshold of GPU001)."""
_CONTEXT = 1.5e9
"""Bytes above which a card is used by more than an empty context."""
_FILLED = 0.9
"""Of the device's memory, what a greater batch may take."""


@frozen
class MemoryHeadroom:
    """Memory that a greater micro batch could take, on the fullest rank."""

    device: float
    """Bytes of the device."""
    peak: float
    """Most of them that the allocator held."""
    busy: float
    """Mean share of time in which the cards were busy."""
    samples: float | None
    """Of a micro batch; None where they were not counted."""
    tokens: float | None
    factor: int
    """The power of two by which the micro batch may grow; 1 where it may not be known."""

    @property
    def share(self) -> float:
        """Of the device's memory, what was used."""
        return self.peak / self.device


def cards_in_use(run: Run) -> list[tuple[GpuUse, float]]:
    """The sampled GPUs that hold more than a context, each with how busy it was; empty without samples."""
    seen = [(gpu, gpu.busy if gpu.busy is not None else gpu.utilization) for gpu in run_numbers(run.recording).gpus]
    found = [(gpu, busy) for gpu, busy in seen if busy is not None]
    return [(gpu, busy) for gpu, busy in found if (gpu.memory or 0.0) > _CONTEXT] or found


def fullest(run: Run) -> RankMemory | None:
    """The rank whose device was fullest; None where no device memory was recorded."""
    ranks = [item for item in map(rank_memory, run.recording.ranks) if item.device and item.peak]
    return max(ranks, key=used, default=None)


def used(item: RankMemory) -> float:
    """Share of a rank's device memory that its allocator held at most."""
    return max(item.peak or 0.0, item.reserved or 0.0) / (item.device or math.inf)


def room(run: Run) -> MemoryHeadroom | None:
    """The room that a greater batch would use; None where the cards are busy, waiting, or nobody knows."""
    rank, cards = fullest(run), cards_in_use(run)
    if rank is None or rank.device is None or not cards:
        return None
    busy = mean(share for _, share in cards)
    if busy >= BUSY or any(run.share(name) >= EXPLAINS for name in CAUSES):
        return None
    passes = max(1.0, run.lead.per_step("backwards"))
    return MemoryHeadroom(
        device=rank.device,
        peak=max(rank.peak or 0.0, rank.reserved or 0.0),
        busy=busy,
        samples=run.lead.per_step("samples") / passes if run.lead.known("samples") else None,
        tokens=run.lead.per_step("tokens") / passes if run.lead.known("tokens") else None,
        factor=_factor(rank),
    )


def _factor(rank: RankMemory) -> int:
    """What is held between steps stays as it is; what is above it at the peak grows with the batch."""
    held, peak = rank.allocated or 0.0, rank.peak or 0.0
    if peak <= held or rank.device is None:
        return 1
    most = (_FILLED * rank.device - held) / (peak - held)
    return 1 << max(0, math.floor(math.log2(most))) if most >= 1 else 1


def grows(found: MemoryHeadroom) -> str:
    """How far the micro batch may grow, as a clause; "" where that is not known."""
    if found.factor < 2:
        return ""
    if found.samples:
        return say(
            "; a micro batch of {samples:,.0f} instead of {now:,.0f} would fit",
            samples=found.samples * found.factor,
            now=found.samples,
        )
    return say("; a micro batch {factor} times as large would fit", factor=found.factor)


def room_evidence(found: MemoryHeadroom, run: Run) -> tuple[Measurement, ...]:
    """The numbers behind it."""
    known = {"tokens_per_backward": found.tokens, "samples_per_backward": found.samples}
    return (
        measured("device_memory_share", found.share, "1", run.recording),
        measured("gpu_busy_share", found.busy, "1", run.recording),
        *(measured(name, value, "1", run.recording) for name, value in known.items() if value is not None),
    )


@frozen
class HeadroomDetail(Detail):
    """What rules read of it."""

    factor: float = 0.0
    """How many times as large a batch may be; 0 where no run was seen."""
    samples: float = 0.0
    """In a batch; 0 where not known."""


def room_detail(found: MemoryHeadroom) -> HeadroomDetail:
    """What rules read of it."""
    return HeadroomDetail(factor=float(found.factor), samples=float(found.samples or 0.0))
