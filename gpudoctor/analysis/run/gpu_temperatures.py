"""Heat of the GPUs that were sampled beside a run."""

from dataclasses import dataclass

from gpudoctor.analysis.run.sampled_gpus import SampledGpu, cards, readings
from gpudoctor.model.signs.recording import Recording


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuTemperature:
    """Temperatures of one GPU in steady state, degrees Celsius, a sample each."""

    card: SampledGpu
    core: tuple[float, ...]
    margins: tuple[float, ...]
    """What the card says is left until its slowdown."""
    memory: tuple[float, ...]

    @property
    def highest(self) -> float | None:
        """The highest temperature of the GPU; None where it tells none."""
        return max(self.core, default=None)

    def above(self) -> float:
        """Share of the samples in which the GPU was above its operating maximum."""
        return _above(self.core, self.card.fact("temperature_max"))

    def nearer_than(self, degrees: float) -> tuple[float, float] | None:
        """Least margin to the slowdown, and share of the samples nearer than so; None where never.

        The card's own margin where it can be believed (some report none above zero while cold), else the
        threshold's.
        """
        slowdown = self.card.fact("temperature_slowdown")
        left = [margin for margin in self.margins if margin > 0]
        if len(left) < len(self.margins) or not left:
            left = [slowdown - core for core in self.core] if slowdown is not None else []
        near = [margin for margin in left if margin < degrees]
        return (min(near), len(near) / len(left)) if near else None

    def memory_above(self) -> float:
        """Share of the samples in which the memory was above its maximum."""
        return _above(self.memory, self.card.fact("temperature_memory_max"))


def warmth(recording: Recording) -> tuple[GpuTemperature, ...]:
    """The heat of the sampled GPUs whose limits the driver told; empty where it told none."""
    found = [
        GpuTemperature(
            card=card,
            core=_of(recording, card, "temperature"),
            margins=_of(recording, card, "margin"),
            memory=_of(recording, card, "memory_temperature"),
        )
        for card in cards(recording)
    ]
    limits = ("temperature_slowdown", "temperature_max", "temperature_memory_max")
    return tuple(
        one for one in found
        if (one.core or one.memory) and (one.margins or any(one.card.fact(name) for name in limits))
    )  # fmt: skip


def _of(recording: Recording, card: SampledGpu, name: str) -> tuple[float, ...]:
    return tuple(value for _, value in readings(recording, card, name))


def _above(values: tuple[float, ...], most: float | None) -> float:
    if most is None or not values:
        return 0.0
    return sum(value > most for value in values) / len(values)
