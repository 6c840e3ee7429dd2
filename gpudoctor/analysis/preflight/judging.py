"""What follows from the tests so far: accusations, proven nodes, and what stays undecided."""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from statistics import median
from typing import Any

from gpudoctor.analysis.preflight.accusation import Accusation, Accused, Aspect, Judgement
from gpudoctor.analysis.preflight.group_tests import GroupTests
from gpudoctor.analysis.preflight.node_evidence import NOISY, NodeEvidence
from gpudoctor.analysis.preflight.pair_speeds import FEW, PairTest, judged_figure
from gpudoctor.analysis.preflight.search_plan import PLANS, Plan
from gpudoctor.lang import say, term
from gpudoctor.model.finding import Confidence
from gpudoctor.model.signs.preflight import LinkTest, PreflightNode
from gpudoctor.text import percent

SMALL = 4
"""Up to so many nodes an accusation is not confirmed: its witnesses are too few."""
MANY_LINKS = 0.1
"""Share of the pairs from which slow links are two kinds of path, and not faults of each."""
DOMAIN_SHARE = 0.6
"""Share of the tested nodes of a domain whose accusations become one of the domain."""
DOMAIN_LEAST = 3
"""Least number of accused nodes in such a domain."""


def judge(
    nodes: Sequence[PreflightNode],
    tests: Sequence[LinkTest],
    lost: Collection[int] = (),
    plan: Plan = PLANS["standard"],
) -> Judgement:
    """The accusations that follow from the tests so far, what is proven, and what stays undecided."""
    return _Judge(plan, nodes, tests, lost).judgement()


class _Judge(NodeEvidence):
    """One reading of the tests; made anew for each question."""

    def judgement(self) -> Judgement:
        undecided = [
            say(
                "The {aspect} is too noisy: {chance} of the tests of good nodes are slow.",
                aspect=term(aspect.value),
                chance=percent(self.chance[aspect]),
            )
            for aspect in self.aspects[1:]
            if len(self.pairs) >= FEW and self.chance[aspect] > NOISY
        ]
        undecided += [
            say(
                "The {aspect} varies by {spread} from test to test: a node at half the speed of the "
                "others would not show.",
                aspect=term(aspect.value),
                spread=percent(math.expm1(deviation)),
            )
            for aspect, deviation in self.blurred.items()
        ]
        found = [*self._of_nodes(undecided), *self._of_links(undecided)]
        found += self._of_suspects({node for item in found for node in item.nodes})
        found += self._of_groups(undecided)
        named = {node for item in found if item.accused is not Accused.LINK for node in item.nodes}
        unmet = [node for node in self.order if not self.by_node[node]]
        if unmet and len(self.order) > 1:
            names = ", ".join(self.names[node] for node in unmet[:8]) + (" ..." if len(unmet) > 8 else "")
            undecided.append(say("No test with another node was made on {names}.", names=names))
        proven = tuple(sorted(node for node in self.proven if node not in named))
        return Judgement(accusations=tuple(found), proven=proven, undecided=tuple(undecided))

    def _accusation(
        self,
        accused: Accused,
        nodes: Iterable[int],
        aspect: Aspect,
        confidence: Confidence,
        pairs: Sequence[PairTest],
        **more: Any,
    ) -> Accusation:
        tests = tuple({id(pair.test): pair.test for pair in pairs}.values())
        more |= self.measured(pairs, aspect)._asdict()
        return Accusation(
            accused=accused, nodes=tuple(sorted(nodes)), aspect=aspect, confidence=confidence, tests=tests, **more
        )  # fmt: skip

    def _of_nodes(self, undecided: list[str]) -> list[Accusation]:
        evidence: dict[tuple[Aspect, str], dict[int, list[PairTest]]] = {}
        for (node, aspect), distances in self.guilty.items():
            pairs = self.against(node, distances, aspect)
            if self.proof(pairs, aspect):
                evidence.setdefault((aspect, self.domain.get(node, "")), {})[node] = pairs
            else:
                share = self.measured(pairs, aspect).share or 1.0
                undecided.append(
                    say(
                        "{names} reached {share} of the speed of its peers ({aspect}): too "
                        "little below them "
                        "to accuse it.",
                        names=self.names[node],
                        share=percent(share),
                        aspect=term(aspect.value),
                    )
                )
        found: list[Accusation] = []
        for (aspect, domain), members in evidence.items():
            found += self._of_domain(aspect, domain, members)
        return found

    def _of_domain(self, aspect: Aspect, domain: str, members: Mapping[int, list[PairTest]]) -> list[Accusation]:
        """Accusations of the nodes of one domain; one for all of them if most are bad with other domains."""
        mates = [node for node in self.by_node if self.domain.get(node, "") == domain]
        others = len(self.by_node) - len(mates)
        alone = {node for node in members if self.bad_enough(node, (False,), aspect, 0)}
        far = {node for node, pairs in members.items() if any(pair.far for pair in pairs)}
        crowd = far if len(far - alone) >= DOMAIN_LEAST else set()
        far_only = bool(crowd)
        if not crowd:
            crowd = set(members)
        never = {node for node in mates if not any(self.good_tests(node, at, aspect) for at in {far_only, True})}
        if not domain or not others or len(crowd) < DOMAIN_LEAST or len(crowd) < DOMAIN_SHARE * len(mates):
            crowd = set()
        found = []
        if crowd:
            confidence = Confidence.CONFIRMED if others >= len(mates) else Confidence.PROBABLE
            pairs = [pair for node in sorted(crowd) for pair in members[node] if pair.far or not far_only]
            found.append(
                self._accusation(
                    Accused.DOMAIN, never | crowd, aspect, confidence, pairs, far_only=far_only
                )
            )  # fmt: skip
        for node, pairs in members.items():
            if node not in crowd or (far_only and node in alone):
                only = all(pair.far for pair in pairs) and any(
                    not pair.far for pair in self.good_tests(node, False, aspect)
                )
                found.append(self._accusation(Accused.NODE, (node,), aspect, self._confidence(), pairs, far_only=only))
        return found

    def _confidence(self) -> Confidence:
        """With three nodes one outvotes another; with five, each accusation has three independent witnesses."""
        count = len(self.by_node)
        if count <= 3:
            return Confidence.SUSPECTED
        return Confidence.CONFIRMED if count > SMALL else Confidence.PROBABLE

    def _of_links(self, undecided: list[str]) -> list[Accusation]:
        found: list[Accusation] = []
        slow = self._lasting_links()
        crowd = slow > max(DOMAIN_LEAST, MANY_LINKS * len({(p.a, p.b) for p in self.pairs}))
        if crowd:
            undecided.append(
                say("{slow} pairs of good nodes are slow: that is a second kind of path, not a bad link.", slow=slow)
            )
        for (a, b), by_aspect in self.links.items():
            for aspect, pairs in by_aspect.items():
                if crowd and aspect is not Aspect.FAILURE:
                    continue
                good, bad = self.repeats(a, b, aspect)
                if good:
                    if aspect is Aspect.FAILURE:
                        undecided.append(
                            say(
                                "{bad} of {tests} tests of {names} with {others} failed.",
                                bad=bad,
                                tests=bad + good,
                                names=self.names[a],
                                others=self.names[b],
                            )
                        )
                elif bad >= self.link_proofs(aspect) and self.proof(pairs, aspect):
                    found.append(self._accusation(Accused.LINK, (a, b), aspect, self._confidence(), pairs))
                elif aspect is Aspect.FAILURE or self.proof(pairs, aspect):
                    found.append(
                        self._accusation(
                            Accused.LINK, (a, b), aspect, Confidence.SUSPECTED, pairs,
                            undecided="The same two nodes again would show whether it lasts.",
                        )
                    )  # fmt: skip
        return found

    def _lasting_links(self) -> int:
        """How many slow links were slow in each test; of those tested once, the share that retests confirm."""
        counts = [
            max(self.repeats(*ends, aspect) for aspect in item)
            for ends, item in self.links.items()
            if Aspect.FAILURE not in item
        ]
        again = [good for good, bad in counts if good + bad > 1]
        lasting = again.count(0)
        share = lasting / len(again) if again else 1.0
        return lasting + round(share * (len(counts) - len(again)))

    def _of_suspects(self, named: Collection[int]) -> list[Accusation]:
        """What is left open when no more rounds are allowed or no witness is left."""
        found: list[Accusation] = []
        seen: set[tuple[frozenset[int], Aspect]] = set()
        if self.pairs and all(pair.test.failure for pair in self.pairs) and len(self.by_node) > 2:
            return [
                self._accusation(
                    Accused.GROUP, self.by_node, Aspect.FAILURE, Confidence.PROBABLE, self.pairs,
                    undecided="Every test of two nodes failed, so none can be told from another.",
                )
            ]  # fmt: skip
        for node, far in self.suspects:
            if node in named:
                continue
            for aspect in self.aspects:
                bad = self.bad_tests(node, far, aspect)
                if not bad or self.proves(node, far, aspect):
                    continue
                against = self.against(node, (far,), aspect)
                if against and self.proof(against, aspect) and len(self.by_node) > 2:
                    found.append(
                        self._accusation(
                            Accused.NODE, (node,), aspect, Confidence.SUSPECTED, against,
                            undecided="More tests with proven nodes would show whether it is this one.",
                        )
                    )  # fmt: skip
                    continue
                for pair in bad:
                    ends = frozenset((pair.a, pair.b))
                    same = [item for item in bad if {item.a, item.b} == ends]
                    if ends & set(named) or (ends, aspect) in seen or not self.proof(same, aspect):
                        continue
                    seen.add((ends, aspect))
                    twice = len(same) > 1 and aspect is Aspect.FAILURE
                    found.append(
                        self._accusation(
                            Accused.LINK, ends, aspect, Confidence.PROBABLE if twice else Confidence.SUSPECTED,
                            same, undecided="It may be either node or what is between them.",
                        )
                    )  # fmt: skip
        return found

    def _of_groups(self, undecided: list[str]) -> list[Accusation]:
        found: list[Accusation] = []
        for state in self.group_states:
            if state.transient:
                undecided.append(say("A group was slow or failed once, and was good when it was tested again."))
            found += self._of_state(state)
        return found

    def _of_state(self, state: "GroupTests") -> list[Accusation]:
        found = []
        for nodes, bad in state.accused():
            figures = [figure.value for test in bad if (figure := judged_figure(test, Aspect.BANDWIDTH)) is not None]
            least = [value for test in bad if (value := self.group_expectation(test)) is not None]
            failed = any(test.failure for test in bad)
            own = median(figures) if figures and not failed else None
            peers = median(least) if least and not failed else None
            one = len(nodes) == 1
            found.append(
                Accusation(
                    accused=Accused.GROUP,
                    nodes=tuple(sorted(nodes)),
                    aspect=Aspect.FAILURE if failed else Aspect.BANDWIDTH,
                    confidence=Confidence.PROBABLE if one else Confidence.SUSPECTED,
                    tests=tuple(bad),
                    own=own,
                    peers=peers,
                    share=own / peers if own is not None and peers else None,
                    size=min(len(test.nodes) for test in bad),
                    undecided="" if one else say("Smaller groups did not show which of these nodes it is."),
                )
            )
        return found
