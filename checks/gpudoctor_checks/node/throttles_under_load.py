"""NODE014 throttles-under-load."""

from collections.abc import Iterator

from gpudoctor.analysis.preflight.named_nodes import unit_name
from gpudoctor.lang import say
from gpudoctor.model import OWN_CHOICE, Check, Finding, Patient, Reads, Threshold
from gpudoctor.model.evidence import Measurement
from gpudoctor.model.signs.preflight import Quantity
from gpudoctor.model.unavailable import Unavailable
from gpudoctor.text import capitalised, percent, quantity
from gpudoctor_checks.node.node_findings import on_nodes


class ThrottlesUnderLoad(Check):
    """A unit loses speed while it works without a pause.

    What it finds:
        A card whose matrix products are slower at the end of a long load than at its beginning.
    Why it hurts:
        A short test sees a cool card. A training runs for hours at the speed of the warm one, and all ranks
        wait.
    How it knows:
        `gpudoctor preflight --burn SECONDS` loads each unit without a pause. It compares the rate of the
        first part with that of the last.
    False alarms:
        Boost clocks fall by a few percent on every card that warms up. Less than a minute of load shows little.
    Remedies:
        Look at fans, air, coolant and power limits; leave the node out.
    References:
        - https://docs.nvidia.com/deploy/nvml-api/group__nvmlClocksEventReasons.html
    """

    code = "NODE014"
    reads = frozenset({Reads.PREFLIGHT})
    thresholds = (
        Threshold("share", 0.10, "1", f"{OWN_CHOICE}; boost clocks of healthy cards fall by some percent",
                  "A unit that loses more than this share of its first rate is reported."),
    )  # fmt: skip

    def examine(self, patient: Patient) -> Iterator[Finding]:
        found = patient.preflight
        both = [
            (unit, first, last)
            for unit in found.units
            for first in unit.figures
            if first.quantity is Quantity.MATMUL
            and first.when == "first"
            and (last := unit.figure(Quantity.MATMUL, first.dtype, "last"))
        ]
        if not both:
            raise Unavailable(say("no lasting load was asked for (--burn SECONDS)"))
        for unit, first, last in both:
            lost = 1 - last.value / first.value
            if lost <= self.limit("share"):
                continue
            name = unit_name(found, unit)
            yield on_nodes(
                self,
                found,
                say(
                    "{name} falls from {first} to {last}: {lost} slower.",
                    name=capitalised(name),
                    first=quantity(first.value, "FLOP/s"),
                    last=quantity(last.value, "FLOP/s"),
                    lost=percent(lost),
                ),
                [unit.node],
                Measurement("first_rate", first.value, "FLOP/s"),
                Measurement("last_rate", last.value, "FLOP/s"),
                subject=name,
            )
