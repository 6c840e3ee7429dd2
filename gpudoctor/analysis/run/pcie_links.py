"""PCIe links of the GPUs that were sampled beside a run."""

from collections.abc import Iterable
from dataclasses import dataclass

from gpudoctor.analysis.run.sampled_gpus import SampledGpu, cards, readings
from gpudoctor.model.signs.gpu import is_grace
from gpudoctor.model.signs.recording import Recording

_LEAST_MINUTES = 1.0
"""Minutes below which a rate of replays says nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuLink:
    """The link of one GPU, with its samples in steady state."""

    card: SampledGpu
    width: tuple[int, ...]
    """Lanes in use, a sample each."""
    loaded: tuple[tuple[float, int], ...]
    """How busy the GPU was (0..1), and the generation of its link."""
    replays: tuple[tuple[float, float], ...]
    """Seconds, and packets that were sent again up to then."""

    def most(self, what: str) -> float | None:
        """The greatest `width` or `generation` that card and slot together can do."""
        return self.card.fact(f"pcie_{what}_max")

    def below(self, what: str, values: Iterable[int], share: float = 1.0) -> tuple[int, float] | None:
        """The usual value of those below a share of the most, and how often it was below; None where never."""
        most, every = self.most(what), [value for value in values if value > 0]
        low = [value for value in every if most is not None and value < most * share]
        return (max(set(low), key=low.count), len(low) / len(every)) if low else None

    def busy_generation(self, load: float) -> list[int]:
        """Generations of the samples in which the GPU was at least so busy: an idle one saves power."""
        return [generation for busy, generation in self.loaded if busy >= load]

    def replays_per_minute(self) -> float | None:
        """None where they were not counted for long enough."""
        if len(self.replays) < 2:
            return None
        (begin, before), (end, after) = self.replays[0], self.replays[-1]
        minutes = (end - begin) / 60
        # The driver's counter begins anew when it is loaded again.
        return (after - before) / minutes if minutes >= _LEAST_MINUTES and after >= before else None


def links(recording: Recording) -> tuple[GpuLink, ...]:
    """The links that were sampled; those of cards that reach their host over NVLink-C2C are none."""
    found = [
        GpuLink(
            card=card,
            width=tuple(int(width) for _, width in readings(recording, card, "pcie_width")),
            loaded=tuple(
                (busy, int(value)) for _, busy, value in readings(recording, card, "util", "pcie_generation")
            ),
            replays=tuple((t, count) for t, count in readings(recording, card, "pcie_replays")),
        )
        for card in cards(recording)
        if not is_grace(card.name)
    ]
    return tuple(link for link in found if link.width or link.loaded)
