"""Where a synthetic job runs."""

from dataclasses import dataclass

from gpudoctor.estimate.result import Device


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPlace:
    """Where it would run."""

    kind: str
    """`cuda` or `cpu`."""
    name: str
    """The card's name, or the CPU's."""
    bytes: int
    """Memory of one card, or of the host."""
    free: int
    """What of it nobody uses now."""
    cards: int = 0
    """Cards in the machine; 0 on the CPU."""
    capability: tuple[int, int] | None = None
    """Compute capability of a card."""

    @property
    def device(self) -> Device | None:
        """The card as estimates name it; None on the CPU."""
        if self.kind == "cpu":
            return None
        return Device(name=self.name, bytes=self.bytes, capability=self.capability)
