"""NODE017 slower-than-before."""

from collections.abc import Iterator

from gpudoctor.analysis.preflight.named_nodes import unit_name
from gpudoctor.analysis.preflight.peers import LOWER_IS_BETTER
from gpudoctor.lang import say
from gpudoctor.model import OWN_CHOICE, Check, Confidence, Finding, Patient, Reads, Threshold
from gpudoctor.model.evidence import Measurement
from gpudoctor.model.signs.preflight import Figure, Preflight, Quantity, Unit
from gpudoctor.model.unavailable import Unavailable
from gpudoctor.text import capitalised, count, percent, quantity
from gpudoctor_checks.node.node_findings import on_nodes

_JUDGED = frozenset({Quantity.MATMUL, Quantity.MEMORY_BANDWIDTH, Quantity.HOST_TO_DEVICE, Quantity.DEVICE_TO_HOST})
"""Rates; clocks, watts and degrees explain them."""


class SlowerThanBefore(Check):
    """A unit reaches less than the same unit did in an earlier preflight.

    What it finds:
        A card, or the CPUs of a node, that lost speed since the report given with `--baseline`. Units are the
        same by their UUID, or by host name and index.
    Why it hurts:
        A card that degrades slowly looks like its peers on each single day. If all cards of a job lost speed
        together, no peer shows it. A driver, a power limit or the cooling changed.
    How it knows:
        It compares equal quantities, number types and payloads of the two reports.
    False alarms:
        Other work on the machine during one of the two. Units that were replaced are not compared. On CPUs
        figures vary more: the threshold is greater there.
    Remedies:
        Compare driver, clocks and limits of the two days; leave the node out if it alone lost speed.
    References:
        - https://github.com/microsoft/superbenchmark (baselines for each node)
    """

    code = "NODE017"
    reads = frozenset({Reads.PREFLIGHT})
    thresholds = (
        Threshold("share", 0.08, "1", f"{OWN_CHOICE}; a healthy card repeats its figure within 2 %",
                  "A card that lost more than this share is reported."),
        Threshold("cpu_share", 0.3, "1", f"{OWN_CHOICE}; shared processors vary by a quarter",
                  "CPUs that lost more than this share are reported."),
    )  # fmt: skip

    def examine(self, patient: Patient) -> Iterator[Finding]:
        found = patient.preflight
        if found.before is None:
            raise Unavailable(say("no earlier preflight was given (--baseline FILE)"))
        earlier = {_identity(found.before, unit): unit for unit in found.before.units}
        lost: dict[Quantity, list[tuple[Unit, Figure, Figure, float]]] = {}
        same = 0
        for unit in found.units:
            before = earlier.get(_identity(found, unit))
            if before is None or before.name != unit.name:
                continue
            same += 1
            for figure in unit.figures:
                kind = (figure.quantity, figure.dtype, figure.payload, figure.when)
                past = (item for item in before.figures if (item.quantity, item.dtype, item.payload, item.when) == kind)
                old = next(past, None) if figure.quantity in _JUDGED else None
                if old is None or old.value <= 0 or figure.quantity in LOWER_IS_BETTER:
                    continue
                share = 1 - figure.value / old.value
                if share > self.limit("cpu_share" if unit.device == "cpu" else "share"):
                    lost.setdefault(figure.quantity, []).append((unit, figure, old, share))
        if not same:
            raise Unavailable(say("the baseline has none of these units"))
        for items in lost.values():
            yield self._finding(found, items, same)

    def _finding(self, preflight: Preflight, items: list[tuple[Unit, Figure, Figure, float]], same: int) -> Finding:
        unit, figure, old, share = max(items, key=lambda item: item[3])
        each = len({(item[0].node, item[0].local) for item in items})
        everyone = each == same and same > 1
        what = say("{dtype} {quantity}", dtype=figure.dtype, quantity=figure.quantity.value.replace("_", " ")).strip()
        more = say(" {units} lost speed.", units=capitalised(count(each, "unit"))) if each > 1 else ""
        return on_nodes(
            self,
            preflight,
            say(
                "{unit} lost {share} of {what} since the baseline, from {old} to {figure}.{more}",
                unit=capitalised(unit_name(preflight, unit)),
                share=percent(share),
                what=what,
                old=quantity(old.value, old.unit),
                figure=quantity(figure.value, figure.unit),
                more=more,
            ),
            () if everyone else {item[0].node for item in items},
            *(
                Measurement(
                    f"{unit_name(preflight, one)}, before {quantity(past.value, past.unit)}", now.value, now.unit
                )
                for one, now, past, _ in items[:8]
            ),
            subject=unit_name(preflight, unit),
            confidence=Confidence.CONFIRMED if unit.device == "cuda" else Confidence.PROBABLE,
            cause="everyone" if everyone else "",
        )


def _identity(preflight: Preflight, unit: Unit) -> tuple[str, ...]:
    return (unit.uuid,) if unit.uuid else (preflight.nodes[unit.node].name, unit.device, str(unit.local))
