"""NODE003 memory-bandwidth-low."""

from collections.abc import Iterator

from gpudoctor.analysis.preflight.slow_units import UnitQuantity, peer_thresholds, slow_units
from gpudoctor.lang import say
from gpudoctor.model import Check, Finding, Patient, Reads
from gpudoctor.model.signs.preflight import Quantity


class MemoryBandwidthLow(Check):
    """The memory of a card is slower than that of equal cards, or than the same card's elsewhere.

    What it finds:
        A card whose copies inside its own memory reach less than those of cards of the same name.
    Why it hurts:
        Optimizers, norms, activations and attention read and write memory: they take longer on this card, and
        the other ranks wait.
    How it knows:
        `gpudoctor preflight` copies large buffers inside the card's memory and counts bytes read and written.
    False alarms:
        Cards of different names or memory sizes are not compared. Another process on the card takes bandwidth.
    Remedies:
        Leave the node out; look at remapped rows, the memory clock and other processes.
    References:
        - https://developer.nvidia.com/blog/how-implement-performance-metrics-cuda-cc (effective bandwidth)
    """

    code = "NODE003"
    reads = frozenset({Reads.PREFLIGHT})
    thresholds = peer_thresholds(slower=0.08, against_reference=0.25)

    def examine(self, patient: Patient) -> Iterator[Finding]:
        asked = [UnitQuantity(Quantity.MEMORY_BANDWIDTH, say("copies inside its memory"))]
        yield from slow_units(self, patient.preflight, asked)
