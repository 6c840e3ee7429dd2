"""NODE002 wrong-values."""

from collections import Counter, defaultdict
from collections.abc import Iterator

from gpudoctor.analysis.preflight.named_nodes import node_names, unit_name
from gpudoctor.lang import say
from gpudoctor.model import Check, Confidence, Finding, Measurement, Patient, Reads, Severity
from gpudoctor.model.signs.preflight import Preflight, Unit
from gpudoctor.text import capitalised
from gpudoctor_checks.node.node_findings import on_nodes

_BREAKS = say("results are wrong and nothing says so")


class WrongValues(Check):
    """A card computes other bits than its peers, or than itself a moment before.

    What it finds:
        A unit whose matrix product gives other bits than the same product on equal cards. It also finds a
        unit whose own repetitions differ.
    Why it hurts:
        Silent corruption: nothing crashes, and the loss or the weights of all ranks are wrong. Meta and Google
        report such cards in large trainings. They are found months later or never.
    How it knows:
        `gpudoctor preflight` computes the same products several times on each unit and keeps a digest of the
        result. One library on one kind of card gives the same bits each time. The majority of the peers decides
        which bits are right.
    False alarms:
        Cards of another name, and nodes with another torch or driver, are not compared: their kernels may round
        differently. If two units differ without a third one, the finding names both.
    Remedies:
        Leave the node out, repeat the test there, and have the card replaced.
    References:
        - https://arxiv.org/abs/2407.21783 (Llama 3, section 3.3.4: silent data corruption)
    """

    code = "NODE002"
    reads = frozenset({Reads.PREFLIGHT})
    severity = Severity.ERROR

    def examine(self, patient: Patient) -> Iterator[Finding]:
        found = patient.preflight
        for unit in found.units:
            for product, digests in unit.digests.items():
                if len(set(digests)) > 1:
                    yield self._unsteady(found, unit, product, digests)
                    break
        yield from self._against_peers(found)

    def _unsteady(self, preflight: Preflight, unit: Unit, product: str, digests: tuple[str, ...]) -> Finding:
        usual, times = Counter(digests).most_common(1)[0]
        return on_nodes(
            self,
            preflight,
            say(
                "{unit} gave {results} different results for one product ({product}) in {repetitions} repetitions.",
                unit=capitalised(unit_name(preflight, unit)),
                results=len(set(digests)),
                product=product,
                repetitions=len(digests),
            ),
            [unit.node],
            Measurement(f"digest_{product.replace(' ', '_')}", usual, ""),
            Measurement("repetitions_with_it", times, "{repetitions}"),
            Measurement("repetitions", len(digests), "{repetitions}"),
            subject=unit_name(preflight, unit),
            breaks=_BREAKS,
        )

    def _against_peers(self, preflight: Preflight) -> Iterator[Finding]:
        groups: dict[tuple[str, ...], dict[str, list[Unit]]] = defaultdict(lambda: defaultdict(list))
        for unit in preflight.units:
            for product, digests in unit.digests.items():
                if len(set(digests)) == 1:
                    groups[self._kind(preflight, unit, product)][digests[0]].append(unit)
        seen: set[tuple[int, int]] = set()
        for kind, by_digest in groups.items():
            if len(by_digest) < 2:
                continue
            ordered = sorted(by_digest.values(), key=len, reverse=True)
            total = sum(map(len, ordered))
            if 2 * len(ordered[0]) <= total:
                units = [unit for group in ordered for unit in group]
                yield self._undecided(preflight, kind[-1], units, len(ordered))
                continue
            for unit in (item for group in ordered[1:] for item in group):
                if (unit.node, unit.local) in seen:
                    continue
                seen.add((unit.node, unit.local))
                yield self._outvoted(preflight, unit, kind[-1], len(ordered[0]), total)

    @staticmethod
    def _kind(preflight: Preflight, unit: Unit, product: str) -> tuple[str, ...]:
        """What must be equal for equal bits: the card, the libraries, the product."""
        facts = preflight.nodes[unit.node].facts
        return (unit.device, unit.name, *(facts.get(name, "") for name in ("torch", "cuda", "driver")), product)

    def _outvoted(self, preflight: Preflight, unit: Unit, product: str, right: int, total: int) -> Finding:
        name = unit_name(preflight, unit)
        return on_nodes(
            self,
            preflight,
            say(
                "{name} gives other bits than {right} of {total} equal units for the same product ({product}).",
                name=capitalised(name),
                right=right,
                total=total,
                product=product,
            ),
            [unit.node],
            Measurement("digest", unit.digests[product][0], ""),
            Measurement("units_that_agree", right, "{units}"),
            Measurement("units", total, "{units}"),
            subject=name,
            confidence=Confidence.CONFIRMED if right > 2 else Confidence.PROBABLE,
            breaks=_BREAKS,
        )

    def _undecided(self, preflight: Preflight, product: str, units: list[Unit], results: int) -> Finding:
        nodes = node_names(preflight, {unit.node for unit in units})
        return on_nodes(
            self,
            preflight,
            say(
                "{units} equal units on {nodes} give {results} different results for the same product "
                "({product}). No majority says which one is right.",
                units=len(units),
                nodes=nodes,
                results=results,
                product=product,
            ),
            (),
            *(Measurement(f"digest_{unit_name(preflight, unit)}", unit.digests[product][0], "") for unit in units[:8]),
            subject=nodes,
            confidence=Confidence.PROBABLE,
            breaks=_BREAKS,
            cause="undecided",
        )
