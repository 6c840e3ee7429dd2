"""Tests of large groups of nodes, as group testing: whom the good groups clear, who is in all bad ones."""

from collections import Counter
from collections.abc import Sequence

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
            return [rest] if self.culprits and len(rest) > 2 and rest not in self.tested else []
        if len(bad) == 1 and self.tested[frozenset(bad[0].nodes)] == 1 and everyone.issuperset(bad[0].nodes):
            return [frozenset(bad[0].nodes)]
        size = min(len(test.nodes) for test in bad)
        suspects = self.suspects() & rest
        if not suspects or (len(suspects) == 1 and len(bad) > 1):
            return []
        sets = self._question(sorted(rest), sorted(suspects), size)
        return [nodes for nodes in sets if nodes not in self.tested and len(nodes) > 2]

    def _question(self, rest: Sequence[int], suspects: Sequence[int], size: int) -> list[frozenset[int]]:
        """Halves of the suspects, filled with cleared nodes (or any others) to the size that shows the fault."""
        others = set(rest) - set(suspects)
        cleared = sorted(self.cleared(size) & others or others)
        half = max((len(suspects) + 1) // 2, size - len(cleared))
        if not cleared:
            part = len(rest) // (4 if frozenset(rest[: len(rest) // 2]) in self.tested else 2)
            return [frozenset(rest[part:]), frozenset(rest[:part])]
        first, second = suspects[:half], suspects[half:]
        fill = max(0, size - len(first))
        found = [frozenset([*first, *cleared[:fill]])]
        if len(cleared) >= fill + size - len(second):
            found.append(frozenset([*second, *cleared[fill : fill + max(0, size - len(second))]]))
        return found

    def accused(self) -> list[tuple[frozenset[int], list[LinkTest]]]:
        """Each culprit with the bad groups that held it; then what is left between several candidates."""
        found = [(frozenset((node,)), [test for test in self.lasting if node in test.nodes]) for node in self.culprits]
        rest, bad = self.suspects(), self.unexplained()
        if rest and bad:
            found.append((rest, [test for test in bad if rest & set(test.nodes)]))
        return found
