"""Which groups of nodes to test next: a function of the tests alone, so whoever runs the tests keeps no state.

The rounds: disjoint pairs; each suspect beside proven nodes; a slow link between two proven nodes again; then
all proven nodes together and, if that is slow, parts of them. `judging.py` says whom the tests accuse.
"""

from collections.abc import Collection, Sequence
from functools import cached_property

from gpudoctor.analysis.preflight.node_domains import natural_order
from gpudoctor.analysis.preflight.node_evidence import PROOFS, NodeEvidence
from gpudoctor.analysis.preflight.pair_rounds import pair_rounds
from gpudoctor.analysis.preflight.search_plan import NodeGroup, Plan
from gpudoctor.model.signs.preflight import LinkTest, PreflightNode, Stage


def next_round(
    plan: Plan, nodes: Sequence[PreflightNode], tests: Sequence[LinkTest], lost: Collection[int] = ()
) -> tuple[NodeGroup, ...]:
    """The groups of the next round, disjoint; empty when the search is done.

    `tests` are those of all earlier rounds, failed ones included; others (of one node) are ignored. `lost` are
    indices of nodes that take part no longer: no group holds one.
    """
    return _Search(plan, nodes, tests, lost).next_round()


class _Search(NodeEvidence):
    """One reading of the tests; made anew for each round."""

    def next_round(self) -> tuple[NodeGroup, ...]:
        if len(self.order) < 2:
            return ()
        number = 1 + max((test.round for test in self.pair_tests), default=-1)
        planned = pair_rounds(self._first_order, self.plan.pair_rounds, self.plan.all_pairs_up_to)
        for index in range(number, len(planned)):
            if pairs := [pair for pair in planned[index] if self.alive.issuperset(pair)]:
                return tuple(NodeGroup(stage=Stage.PAIRS, round=index, nodes=pair) for pair in pairs)
        if number < len(planned) + self.plan.retest_rounds and not self.groups and (wanted := self._retests()):
            number = max(number, len(planned))
            return tuple(NodeGroup(stage=Stage.PAIRS, round=number, nodes=nodes) for nodes in wanted)
        return self._next_groups()

    @cached_property
    def _first_order(self) -> tuple[int, ...]:
        """All nodes that can be or were tested: one lost later keeps its place, so that rounds do not shift."""
        known = self.alive.union(*(test.nodes for test in self.pair_tests))
        return tuple(sorted(known, key=lambda node: (natural_order(self.names.get(node, "")), node)))

    def _retests(self) -> list[tuple[int, int]]:
        """Disjoint tests that suspects and slow links need, as many as fit into one round."""
        used: set[int] = set()
        round_: list[tuple[int, int]] = []
        for node, far in self._in_need():
            if node in used:
                continue
            partner = self._witness(node, far, used)
            if partner is not None:
                used.update((node, partner))
                round_.append((node, partner))
        if len(self.order) == 2 and self.pairs and self.pairs[-1].test.failure:
            a, b = self.order
            return [(a, b)] if len(self.pairs) < PROOFS else []
        for (a, b), found in self.links.items():
            if {a, b} & used or not {a, b} <= self.alive:
                continue
            for aspect in found:
                good, bad = self.repeats(a, b, aspect)
                if not good and bad < self.link_proofs(aspect):
                    used.update((a, b))
                    round_.append((a, b))
                    break
        return round_

    def _in_need(self) -> list[tuple[int, bool]]:
        """Suspects, nodes that are slow and not clearly so, nodes that no test has proven."""
        asked = {node for node, _ in self.suspects} | self.accused_nodes | set(self.proven)
        unclear = [
            (node, distances[0])
            for (node, aspect), distances in self.guilty.items()
            if node in self.alive and not self.proof(self.against(node, distances, aspect), aspect)
        ]
        return [*self.suspects, *unclear, *((node, False) for node in self.order if node not in asked)]

    def _witness(self, node: int, far: bool, used: Collection[int]) -> int | None:
        """A proven node that has not met this one, at the distance in question if there is one."""
        met = {pair.other(node) for pair in self.by_node[node]} | {node}
        unmet = [other for other in self.order if other not in used and other not in met]
        free = [other for other in unmet if other in self.proven_set] if self.proven else unmet
        at = [other for other in free if (self.domain[other] != self.domain[node]) is far]
        known = [other for other in at if self.proven_in(other, far)]
        never_good = not any(
            self.good_tests(node, distance, aspect) for distance in (False, True) for aspect in self.aspects[1:]
        )
        # Where every neighbour is suspected, one suspect meets another: a good test clears both.
        unsure = [
            other
            for other in unmet
            if other not in self.accused_nodes and (self.domain[other] != self.domain[node]) is far
        ]
        # A far node serves in place of a near one: the way to it begins alike.
        # One that is slow, and not clearly so, meets the same partners once more.
        again = [other for other in self.proven if other not in used] if node in self.accused_nodes else ()
        for found in (known, at, free if never_good or not far else (), unsure, again):
            if found:
                return found[node % len(found)]  # not the same one for everybody
        return None

    def _next_groups(self) -> tuple[NodeGroup, ...]:
        number = 1 + max((test.round for test in self.groups), default=-1)
        # A slow link would make each group slow that holds both of its ends: one of them stays out.
        ends = {
            max(link) for link, found in self.links.items() for aspect in found if not self.repeats(*link, aspect)[0]
        }
        everyone = tuple(sorted(node for node in self.proven if node not in ends))
        if number >= self.plan.group_rounds or len(everyone) < 3:
            return ()
        if not self.groups:
            return (NodeGroup(stage=Stage.GROUP, round=0, nodes=everyone),)
        failing, slow = self.group_states
        found = failing.next_sets(frozenset(everyone)) or slow.next_sets(
            frozenset(everyone).difference(failing.suspects(), failing.culprits)
        )
        return tuple(NodeGroup(stage=Stage.GROUP, round=number, nodes=tuple(sorted(nodes))) for nodes in found)
