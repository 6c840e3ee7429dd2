"""NODE001 card-slow."""

from collections.abc import Iterator

from gpudoctor.analysis.preflight.slow_units import UnitQuantity, peer_thresholds, slow_units
from gpudoctor.lang import say
from gpudoctor.model import Check, Finding, Patient, Reads
from gpudoctor.model.signs.preflight import Quantity


class CardSlow(Check):
    """A card computes slower than equal cards, or than the same card does elsewhere.

    What it finds:
        A card whose matrix products reach less than those of cards of the same name in this run. It also
        finds cards that stay far below published figures.
    Why it hurts:
        In data parallel training all ranks wait for the slowest one. One slow card in a thousand costs them
        all.
    How it knows:
        `gpudoctor preflight` multiplies large matrices on each card, alone, and takes the median of the
        repetitions. It compares with the median of equal cards, and with a table whose figures have sources.
    False alarms:
        Cards of different names are not compared. A card that another process uses is slow, too: GPU007
        tells. A card that the table does not know is compared with its peers alone.
    Remedies:
        Leave the node out; look at clocks, power, temperature and neighbours of the card.
    References:
        - https://github.com/stas00/ml-engineering/tree/master/compute/accelerator (achievable figures)
    """

    code = "NODE001"
    reads = frozenset({Reads.PREFLIGHT})
    thresholds = peer_thresholds(slower=0.08, against_reference=0.3)

    def examine(self, patient: Patient) -> Iterator[Finding]:
        asked = [
            UnitQuantity(Quantity.MATMUL, say("{dtype} products", dtype=dtype), dtype)
            for dtype in ("bf16", "fp16", "fp8", "fp32")
        ]
        yield from slow_units(self, patient.preflight, asked)
