"""NODE004 host-transfer-slow."""

from collections.abc import Iterator

from gpudoctor.analysis.preflight.slow_units import UnitQuantity, peer_thresholds, slow_units
from gpudoctor.lang import say
from gpudoctor.model import Check, Finding, Patient, Reads
from gpudoctor.model.signs.preflight import Quantity


class HostTransferSlow(Check):
    """Transfers between the host and a card are slower than those of equal cards.

    What it finds:
        A card that receives or sends less than cards of the same name, from pinned memory of the host.
    Why it hurts:
        Batches, offloaded states and checkpoints pass here. A link at half its width halves all of them.
    How it knows:
        `gpudoctor preflight` copies pinned buffers to the card and back, alone.
    False alarms:
        A rank on the far NUMA node is slower on some hosts: bind it to the card's node first. Cards of
        different names are not compared.
    Remedies:
        Look at the PCIe link's width and generation, and at NUMA binding; leave the node out.
    References:
        - https://github.com/Azure/azurehpc-health-checks (floors of H2D and D2H)
    """

    code = "NODE004"
    reads = frozenset({Reads.PREFLIGHT})
    thresholds = peer_thresholds(slower=0.15, against_reference=0.3)

    def examine(self, patient: Patient) -> Iterator[Finding]:
        asked = [
            UnitQuantity(Quantity.HOST_TO_DEVICE, say("transfers from the host")),
            UnitQuantity(Quantity.DEVICE_TO_HOST, say("transfers to the host")),
        ]
        yield from slow_units(self, patient.preflight, asked)
