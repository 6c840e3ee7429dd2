"""A synthetic job as reports show it: estimated beside measured memory, and how fast it ran. Bytes, seconds."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryRow:
    """One instant of a step."""

    instant: str
    """`load`, `loss`, `layer`, `backward`, `accumulation`, `step`, `static`, `peak`."""
    title: str
    estimated: int
    """Bytes by formula."""
    measured: int
    """Bytes that torch's allocator had handed out, in the program itself."""

    @property
    def ratio(self) -> float:
        """Estimated over measured."""
        return self.estimated / self.measured if self.measured else float("inf")


@dataclass(frozen=True, slots=True, kw_only=True)
class SyntheticSummary:
    """A job that was made from a model's configuration."""

    model: str
    method: str
    """`full`, `lora`, `qlora`..."""
    parameters: int
    """Of the model, adapters apart."""
    job: str
    """Sequence, batch, types, optimizer and the like, in words."""
    script: str
    """The program; it needs nothing of gpudoctor."""
    kind: str
    """`cuda` or `cpu`: where it ran."""
    device: str
    """The card's name, or the CPU's."""
    device_bytes: int
    """Memory of one card, or of the host."""
    ranks: int
    versions: Mapping[str, str] = field(default_factory=dict)
    """Package to version."""
    memory: tuple[MemoryRow, ...] = ()
    """By instant, of the fullest rank; empty where the measurement came to no end."""
    memory_ended: str = ""
    """Why it came to none; empty where it did."""
    notes: tuple[str, ...] = ()
    """What the device says beside tensors, and what a CPU does otherwise."""
    assumptions: tuple[str, ...] = ()
    estimated_peak: int
    """Bytes of one rank at its peak, by formula."""
    run_peak: int | None = None
    """Bytes that torch's allocator had handed out at most in the whole first run; None on the CPU."""
    run_resident: int | None = None
    """Highest resident bytes of one training process."""
    step_seconds: float | None = None
    """Mean of the steady steps; None where it made too few."""
    tokens_per_step: int = 0
    """All ranks together; patches of images."""
    tokens_per_second: float | None = None
    flops_per_step: float = 0.0
    """Of the model, all ranks together: what checkpointing computes again is left out."""
    flops_per_second: float | None = None
    peak_flops: float | None = None
    """What the cards can do in dense bf16, all together; None for a CPU or a card that is in no table."""
    mfu: float | None = None
    """The model's operations a second over that; None where one of both is not known."""
    estimate: Mapping[str, Any] = field(default_factory=dict)
    """The whole estimate as `gpudoctor estimate --format json` has it (`gpudoctor.estimate/1`)."""
