"""NODE005 peer-link-slow."""

from collections.abc import Hashable, Iterator
from typing import TypeVar

from gpudoctor.analysis.preflight.named_nodes import measurements_of
from gpudoctor.analysis.preflight.peers import PeerComparison, outliers
from gpudoctor.analysis.preflight.slow_units import peer_thresholds
from gpudoctor.lang import say
from gpudoctor.model import Check, Finding, Measurement, Patient, Reads, Severity
from gpudoctor.model.signs.preflight import LinkTest, Preflight, Quantity, Stage
from gpudoctor.model.unavailable import Unavailable
from gpudoctor.text import count, percent, rate
from gpudoctor_checks.node.node_findings import on_nodes

Key = TypeVar("Key", bound=Hashable)


class PeerLinkSlow(Check):
    """Cards of one node exchange data slower than those of equal nodes, or fail to.

    What it finds:
        A pair of cards whose copies are slower than those of other pairs. A node whose all-reduce is slower
        than that of equal nodes. A test inside a node that fails.
    Why it hurts:
        Tensor and sharded data parallelism move every layer over these links.
    How it knows:
        `gpudoctor preflight` copies between all pairs of cards of a node, then runs an all-reduce over all of
        them. A bus bandwidth is compared only with the same card, number of cards and algorithm.
    False alarms:
        Pairs that the topology joins differently (NVLink, PCIe, across sockets) differ by design. Pairs are
        compared with the same pair on other nodes, and within a node only where most pairs are equal.
    Remedies:
        Look at NVLink, the fabric manager and peer access; leave the node out.
    References:
        - https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md
    """

    code = "NODE005"
    reads = frozenset({Reads.PREFLIGHT})
    thresholds = peer_thresholds(slower=0.15, against_reference=None)

    def examine(self, patient: Patient) -> Iterator[Finding]:
        found = patient.preflight
        inside = [test for test in found.tests if test.stage is Stage.NODE and len(test.nodes) == 1]
        if not inside:
            raise Unavailable(say("no node with several cards was tested"))
        for test in inside:
            if not test.failure:
                continue
            node, cards = found.name(test.nodes[0]), count(len(test.units), "card")
            yield on_nodes(
                self,
                found,
                say("A test of {cards} inside {node} failed: {failure}.", cards=cards, node=node, failure=test.failure),
                test.nodes,
                *measurements_of(found, (test,)),
                subject=node,
                severity=Severity.ERROR,
                breaks=say("ranks of this node cannot communicate"),
            )
        yield from self._nodes(found, [test for test in inside if test.figure(Quantity.BUS_BANDWIDTH)])
        yield from self._pairs(found, [test for test in inside if test.figure(Quantity.PEER_BANDWIDTH)])

    def _nodes(self, preflight: Preflight, tests: list[LinkTest]) -> Iterator[Finding]:
        """All-reduces of whole nodes, each algorithm apart."""
        seen: set[int] = set()
        for algorithm in dict.fromkeys(figure.algorithm for test in tests for figure in test.figures):
            values = {}
            kinds = {}
            for test in tests:
                for figure in test.figures:
                    if figure.quantity is Quantity.BUS_BANDWIDTH and figure.algorithm == algorithm:
                        values[test.nodes[0]] = figure.value
                        kinds[test.nodes[0]] = f"{self._card(preflight, test)} x {len(test.units)}"
            for item in outliers(
                values, share=1 - self.limit("peers"), deviations=self.limit("deviations"), kinds=kinds
            ):
                if item.key not in seen:
                    seen.add(item.key)
                    yield self._slow(
                        preflight, item, say("all-reduce{named} inside", named=_named(algorithm)), item.key
                    )

    def _pairs(self, preflight: Preflight, tests: list[LinkTest]) -> Iterator[Finding]:
        """The same two cards on each node; on a node alone, all its pairs where most are equal."""
        values: dict[tuple[int, tuple[int, int]], float] = {}
        for test in tests:
            figure = test.figure(Quantity.PEER_BANDWIDTH)
            if figure is not None and len(test.units) == 2:
                values[test.nodes[0], (test.units[0][1], test.units[1][1])] = figure.value
        nodes = {node for node, _ in values}
        together = len(nodes) >= 3
        kinds = {key: f"{key[1]}" if together else say("node {key}", key=key[0]) for key in values}
        for item in outliers(values, share=1 - self.limit("peers"), deviations=self.limit("deviations"), kinds=kinds):
            node, (first, second) = item.key
            yield self._slow(
                preflight, item, say("copy from GPU {first} to GPU {second} of", first=first, second=second), node
            )

    def _slow(self, preflight: Preflight, item: PeerComparison[Key], what: str, node: int) -> Finding:
        name = preflight.name(node)
        return on_nodes(
            self,
            preflight,
            say(
                "The {what} {name} reaches {value}, the median of {count} equal ones is {peers}: {share} slower.",
                what=what,
                name=name,
                value=rate(item.value, "B/s"),
                count=item.count,
                peers=rate(item.peers, "B/s"),
                share=percent(1 - item.share),
            ),
            [node],
            Measurement("own_bandwidth", item.value, "B/s"),
            Measurement("median_of_peers", item.peers, "B/s"),
            Measurement("peers", item.count, "{tests}"),
            Measurement("robust_deviations", round(item.deviations, 1), ""),
            subject=name,
            confidence=item.confidence,
        )

    @staticmethod
    def _card(preflight: Preflight, test: LinkTest) -> str:
        names = {(unit.node, unit.local): unit.name for unit in preflight.units}
        return next((names[place] for place in test.units if place in names), "")


def _named(algorithm: str) -> str:
    return say(" ({algorithm})", algorithm=algorithm) if algorithm else ""
