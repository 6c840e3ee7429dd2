"""What the tests say of each node and each path: proven, suspected, guilty.

A node is proven once one of its tests was good. A single bad test accuses nobody: a node is guilty after bad
tests beside several proven nodes.
"""

import math
from collections.abc import Iterable, Mapping
from functools import cached_property

from gpudoctor.analysis.preflight.accusation import Aspect
from gpudoctor.analysis.preflight.group_tests import GroupTests
from gpudoctor.analysis.preflight.pair_speeds import PairSpeeds, PairTest, judged_figure
from gpudoctor.model.signs.preflight import LinkTest

PROOFS = 3
"""Least number of bad tests that accuse a node, beside different proven ones, or a link, all of its tests."""
MOST_GOOD = 2
"""Good tests of a node that is accused all the same, if more than twice as many accuse it."""
CHANCE = 0.001
"""False accusations of a whole search that chance may make, at the rate of bad tests among good nodes."""
USUAL: Mapping[Aspect, float] = {Aspect.FAILURE: 0.03, Aspect.BANDWIDTH: 0.03, Aspect.LATENCY: 0.05, Aspect.LOSS: 0.03}
"""Rate of bad tests among good nodes before any was seen; a run outweighs it after some ten tests."""
NOISY = 0.15
"""Rate of bad tests among good nodes from which slow ones cannot be told from noise."""
TREE_OF_PAIRS = 0.5
"""Least share of the pairs' bus bandwidth that a group reaches if the library chose the algorithm.

Between two nodes NCCL's tree sends half of what a ring sends, so a pair may show twice a group's bus bandwidth.
"""


class NodeEvidence(PairSpeeds):
    """The tests so far, as evidence for and against each node, path and group."""

    @cached_property
    def verdicts(self) -> dict[tuple[int, bool, Aspect], tuple[list[PairTest], list[PairTest]]]:
        """Of node, near or far, and aspect: its good tests and its bad ones."""
        found: dict[tuple[int, bool, Aspect], tuple[list[PairTest], list[PairTest]]] = {}
        for pair in self.pairs:
            pointed = frozenset(pair.test.blamed)
            if pair.test.failure and not pointed:
                pointed = frozenset((pair.a, pair.b)) - self.alive  # of two, the one that was lost
            for aspect in self.aspects:
                bad = self.bad(pair, aspect)
                if bad is None:
                    continue
                for node in (pair.a, pair.b):
                    if not (bad and pointed and node not in pointed):
                        found.setdefault((node, pair.far, aspect), ([], []))[bad].append(pair)
        return found

    def good_tests(self, node: int, far: bool, aspect: Aspect) -> list[PairTest]:
        """The good tests of a node at this distance."""
        key = (node, far, aspect)
        return self.verdicts[key][0] if key in self.verdicts else []

    def bad_tests(self, node: int, far: bool, aspect: Aspect) -> list[PairTest]:
        """The bad tests that speak against a node at this distance."""
        key = (node, far, aspect)
        return self.verdicts[key][1] if key in self.verdicts else []

    def proves(self, node: int, far: bool, aspect: Aspect) -> bool:
        """Whether a bad test with this node speaks against its partner: most of its own were good.

        The way to a far node begins like that to a near one, so a good far test proves a node for both.
        """
        good = len(self.good_tests(node, True, aspect))
        if not far:
            good += len(self.good_tests(node, False, aspect))
        return good > 0 and 2 * good >= len(self.bad_tests(node, far, aspect))

    def against(self, node: int, distances: Iterable[bool], aspect: Aspect) -> list[PairTest]:
        """Bad tests of a node with proven ones, and those whose failure itself points at it."""
        return [
            pair
            for far in distances
            for pair in self.bad_tests(node, far, aspect)
            if node in pair.test.blamed or self.proves(pair.other(node), far, aspect)
        ]

    @cached_property
    def chance(self) -> dict[Aspect, float]:
        """Rate of bad tests between nodes that were good as well, at this distance; each pair counts once."""
        found = {}
        for aspect in self.aspects:
            seen: set[tuple[int, int]] = set()
            bad = 0
            for pair in self.pairs:
                verdict = self.bad(pair, aspect)
                good = verdict is not None and all(self.good_tests(node, pair.far, aspect) for node in (pair.a, pair.b))
                ends = (min(pair.a, pair.b), max(pair.a, pair.b))
                if good and ends not in seen:
                    seen.add(ends)
                    bad += verdict is True
            found[aspect] = (bad + 0.5) / (len(seen) + 0.5 / USUAL[aspect])
        return found

    def proofs(self, aspect: Aspect, candidates: int) -> int:
        """How many bad tests in a row chance makes in less than one of a thousand searches."""
        rate = min(0.5, self.chance[aspect])
        least = PROOFS + (aspect is Aspect.LATENCY)  # its tail is the heaviest
        return max(least, math.ceil(math.log(CHANCE / max(1, candidates)) / math.log(rate)))

    @cached_property
    def guilty(self) -> dict[tuple[int, Aspect], tuple[bool, ...]]:
        """Of node and aspect: the distances (near, far) at which its tests accuse it."""
        found: dict[tuple[int, Aspect], tuple[bool, ...]] = {}
        tested_bad = {(node, aspect) for (node, _, aspect), (_, bad) in self.verdicts.items() if bad}
        for node in sorted(self.by_node):
            for aspect in self.aspects:
                if (node, aspect) not in tested_bad:
                    continue
                # Bad everywhere, bad with far nodes only, or bad now and then.
                ways = (((False, True), 0), ((True,), 0), ((False, True), MOST_GOOD))
                for distances, allowed in ways:
                    if self.bad_enough(node, distances, aspect, allowed):
                        found[node, aspect] = distances
                        break
        return found

    def bad_enough(self, node: int, distances: tuple[bool, ...], aspect: Aspect, allowed: int) -> bool:
        """Whether enough bad tests beside proven nodes accuse a node; it may have `allowed` good ones."""
        against = self.against(node, distances, aspect)
        good = sum(len(self.good_tests(node, far, aspect)) for far in distances)
        partners = {pair.other(node) for pair in against}
        if aspect is not Aspect.FAILURE and self.chance[aspect] > NOISY:
            return False
        least = min(self.proofs(aspect, len(self.by_node)), max(2, len(self.by_node) - 1))
        # One that is good now and then needs two more bad tests for each good one.
        return good <= allowed and len(partners) >= least + 2 * good

    @cached_property
    def accused_nodes(self) -> frozenset[int]:
        """Nodes that are guilty in some aspect."""
        return frozenset(node for node, _ in self.guilty)

    def proven_in(self, node: int, far: bool) -> bool:
        """Whether a node can be a witness: good in every aspect at this distance, and accused of nothing."""
        return (node, far) in self._witnesses

    @cached_property
    def _witnesses(self) -> frozenset[tuple[int, bool]]:
        return frozenset(
            (node, far)
            for node in self.by_node
            for far in (False, True)
            if node not in self.accused_nodes and all(self.proves(node, far, item) for item in self.aspects)
        )

    @cached_property
    def suspects(self) -> tuple[tuple[int, bool], ...]:
        """Node and distance with a bad test, too few good ones, and too few bad ones to accuse it."""
        return tuple(
            (node, far)
            for node in self.order
            if node not in self.accused_nodes
            for far in (False, True)
            if any(self.bad_tests(node, far, aspect) and not self.proves(node, far, aspect) for aspect in self.aspects)
        )

    @cached_property
    def proven(self) -> tuple[int, ...]:
        """Good in each aspect at some distance, accused of nothing, and free of open suspicion."""
        suspects = {node for node, _ in self.suspects}
        return tuple(
            node
            for node in self.order
            if node not in suspects and (self.proven_in(node, False) or self.proven_in(node, True))
        )

    @cached_property
    def proven_set(self) -> frozenset[int]:
        """The proven nodes, for questions of one node."""
        return frozenset(self.proven)

    @cached_property
    def links(self) -> dict[tuple[int, int], dict[Aspect, list[PairTest]]]:
        """Bad tests between two nodes that are both good with others."""
        found: dict[tuple[int, int], dict[Aspect, list[PairTest]]] = {}
        for pair in self.pairs:
            ends = (min(pair.a, pair.b), max(pair.a, pair.b))
            if pair.test.blamed or self.accused_nodes & set(ends):
                continue
            for aspect in self.aspects:
                if self.bad(pair, aspect) and all(self.proves(node, pair.far, aspect) for node in ends):
                    found.setdefault(ends, {}).setdefault(aspect, []).append(pair)
        return found

    def repeats(self, a: int, b: int, aspect: Aspect) -> tuple[int, int]:
        """Good and bad tests of one link."""
        verdicts = [self.bad(pair, aspect) for pair in self.by_node[a] if pair.other(a) == b]
        return verdicts.count(False), verdicts.count(True)

    def link_proofs(self, aspect: Aspect) -> int:
        """Bad tests of one link, all of them, that accuse it."""
        return self.proofs(aspect, len(self.links))

    # Groups: faults that pairs do not show.

    def group_expectation(self, test: LinkTest) -> float | None:
        """Bus bandwidth that a healthy group of this size reaches at least; None if the pairs promise nothing.

        A ring of n ranks sends n pieces, each with the latency of one message: with B of the pairs, latency a
        and payload S it reaches B / (1 + a B n / S). The slowest of n links sets the pace, so the spread of
        the pairs counts as often as the least of n draws is below the median.
        """
        figure = judged_figure(test, Aspect.BANDWIDTH)
        inside = set(test.nodes)
        pairs = [p for p in self.pairs if p.a in inside and p.b in inside and not p.test.failure]
        normals = [self.normals[Aspect.BANDWIDTH, p.peers] for p in pairs if Aspect.BANDWIDTH in p.speed]
        if figure is None or not normals:
            return None
        slowest = min(normals, key=lambda item: item.centre)
        rate = math.exp(slowest.centre)
        latencies = [self.normals[Aspect.LATENCY, p.peers] for p in pairs if Aspect.LATENCY in p.speed]
        latency = max((math.exp(-item.centre) for item in latencies), default=0.0)
        ranks = len(test.units) or len(test.nodes)
        beside = next(p.test for p in pairs if Aspect.BANDWIDTH in p.speed)
        own = judged_figure(beside, Aspect.BANDWIDTH)
        if figure.payload and own is not None and own.payload:
            # The pairs' own figure holds the latency of their few steps; it is taken out first.
            paid = latency * rate * (len(beside.units) or 2) / own.payload
            rate /= max(0.5, 1 - paid)
            rate /= 1 + latency * rate * ranks / figure.payload
        rate *= math.exp(-slowest.deviation * math.sqrt(2 * math.log(max(2, len(test.nodes)))))
        ring = own is not None and figure.algorithm == own.algorithm == "ring"
        return rate * (1 - self.plan.group_drop if ring else TREE_OF_PAIRS)

    def group_slow(self, test: LinkTest) -> bool:
        """Whether a group is slow beside what its pairs promise."""
        if self.chance.get(Aspect.BANDWIDTH, 0.0) > NOISY or Aspect.BANDWIDTH in self.blurred:
            return False
        figure, least = judged_figure(test, Aspect.BANDWIDTH), self.group_expectation(test)
        return figure is not None and least is not None and figure.value < least

    @cached_property
    def group_states(self) -> "tuple[GroupTests, GroupTests]":
        """Of groups that fail, and of groups that are slow: one culprit does not explain both."""
        ran = [test for test in self.groups if not test.failure]
        return (
            GroupTests(self.groups, [bool(test.failure) for test in self.groups]),
            GroupTests(ran, [self.group_slow(test) for test in ran]),
        )
