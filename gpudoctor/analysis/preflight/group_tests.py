"""Tests of large groups of nodes, as group testing: whom the good groups clear, who is in all bad ones."""

from collections import Counter
from collections.abc import Iterator, Sequence

from gpudoctor.model.signs.preflight import LinkTest

ABOUT = 0.9
"""A group of this share of another's size is about as large as it."""


class GroupTests:
    """What tests of large groups say, as group testing: whom the good groups clear, who is in all bad ones.

    A fault may need a group of some size, so a good group clears its members only if it was about as large as
    the smallest bad one. Cleared nodes pad what is tested next to that size.
    """

    def __init__(self, tests: Sequence[LinkTest], bad: Sequence[bool]) -> None:
        self.good = [test for test, is_bad in zip(tests, bad, strict=True) if not is_bad]
        self.tested = Counter(frozenset(test.nodes) for test in tests)
        good_sets = {frozenset(test.nodes) for test in self.good}
        bad_tests = [test for test, is_bad in zip(tests, bad, strict=True) if is_bad]
        self.transient = any(frozenset(test.nodes) in good_sets for test in bad_tests)
        self.lasting = [test for test in bad_tests if frozenset(test.nodes) not in good_sets]
        self.culprits: list[int] = []
        while True:
            suspects = self.suspects()
            if len(suspects) != 1 or sum(suspects <= set(test.nodes) for test in self.lasting) < 2:
                break
            self.culprits += suspects

    def unexplained(self) -> list[LinkTest]:
        """Bad groups that hold no culprit found so far."""
        return [test for test in self.lasting if not set(self.culprits) & set(test.nodes)]

    def cleared(self, size: int) -> set[int]:
        """Members of good groups that were large enough to show the fault."""
        good = (test for test in self.good if len(test.nodes) >= ABOUT * size)
        return {node for test in good for node in test.nodes}

    def suspects(self) -> frozenset[int]:
        """Who is in all bad groups and cleared by none; if nobody is, who in the last one may be a culprit."""
        bad = self.unexplained()
        if not bad:
            return frozenset()
        size = min(len(test.nodes) for test in bad)
        last = [test for test in bad if len(test.nodes) == size][-1]
        cleared = self.cleared(size)
        pointed = set(last.blamed) & set(last.nodes) - cleared
        common = set.intersection(*(set(test.nodes) for test in bad)) - cleared
        return frozenset(pointed or common or set(last.nodes) - cleared)

    def next_sets(self, everyone: frozenset[int]) -> list[frozenset[int]]:
        """Sets to test next, disjoint; empty when nothing is left to ask."""
        rest = everyone - set(self.culprits)
        bad = self.unexplained()
        if not bad:
            if not self.culprits or len(rest) < 3:
                return []
            if rest not in self.tested:
                return [rest]
            if len(self.culprits) > 1:  # each of them alone among the good ones
                alone = (rest | {node} for node in self.culprits)
                return [nodes for nodes in alone if nodes not in self.tested][:1]
            return []
        if len(bad) == 1 and self.tested[frozenset(bad[0].nodes)] == 1 and everyone.issuperset(bad[0].nodes):
            return [frozenset(bad[0].nodes)]
        size = min(len(test.nodes) for test in bad)
        suspects = self.suspects() & rest
        if not suspects or (len(suspects) == 1 and len(bad) > 1):
            return []
        for sets in self._questions(sorted(rest), sorted(suspects), size):
            if new := [nodes for nodes in sets if nodes not in self.tested and len(nodes) > 2]:
                return new
        return []

    def _questions(self, rest: Sequence[int], suspects: Sequence[int], size: int) -> Iterator[list[frozenset[int]]]:
        """Ways to go on, the best first; each is a list of disjoint sets."""
        cleared = sorted(self.cleared(size) & set(rest) - set(suspects))
        whole = size >= ABOUT * len(rest)
        if not whole and len(suspects) < len(rest):
            others = sorted(set(rest) - set(suspects) - set(cleared)) if not cleared else []
            fillers = [*cleared, *others]
            half = (len(suspects) + 1) // 2
            parts = suspects[:half], suspects[half:]
            need = [max(0, size - len(part)) for part in parts]
            if cleared and len(fillers) >= sum(need):
                yield [
                    frozenset([*parts[0], *fillers[: need[0]]]),
                    frozenset([*parts[1], *fillers[need[0] : sum(need)]]),
                ]
            if len(fillers) >= need[0]:
                yield [frozenset([*parts[0], *fillers[: need[0]]])]
            if fillers:
                yield [frozenset([*fillers, *suspects[: max(half, size - len(fillers))]])]
        yield _halves(rest)

    def accused(self) -> list[tuple[frozenset[int], list[LinkTest]]]:
        """Each culprit with the bad groups that held it; then what is left between several candidates."""
        found = [(frozenset((node,)), [test for test in self.lasting if node in test.nodes]) for node in self.culprits]
        rest, bad = self.suspects(), self.unexplained()
        if rest and bad:
            found.append((rest, [test for test in bad if rest & set(test.nodes)]))
        return found


def _halves(nodes: Sequence[int]) -> list[frozenset[int]]:
    half = len(nodes) // 2
    return [frozenset(nodes[:half]), frozenset(nodes[half:])]
