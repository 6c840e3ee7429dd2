"""Which groups of nodes to test next, and which nodes or links the tests so far accuse.

Both are functions of the tests alone, so whoever runs the tests keeps no state. The rounds: disjoint pairs;
each suspect beside proven nodes; a slow link between two proven nodes again; then all proven nodes together
and, if that is slow, parts of them. A node is proven once one of its tests was good. A test is bad if it
failed, or if it is slower than its peers by a share and by several standard deviations. A single bad test
accuses nobody.
"""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property
from itertools import chain
from statistics import median, median_high

from gpudoctor.model.finding import Confidence
from gpudoctor.model.signs.preflight import Figure, LinkTest, PreflightNode, Quantity, Stage, Unit


class Aspect(Enum):
    """In what a test is judged. Each is judged apart from the others."""

    FAILURE = "failure"
    """It gave no figure."""
    BANDWIDTH = "bandwidth"
    """Its bus bandwidth for large messages."""
    LATENCY = "latency"
    """Its time for a small message."""
    LOSS = "loss"
    """Share of its data segments that TCP sent again, in the worse direction."""


class Accused(Enum):
    """What an accusation is about."""

    NODE = "node"
    """One node, whatever its partner."""
    LINK = "link"
    """The path between two nodes that are good with others."""
    DOMAIN = "domain"
    """Most nodes whose names or addresses begin alike: a rack, a switch, a subnet."""
    GROUP = "group"
    """Nodes that are good in pairs and bad in a large group: the one that was found, or all candidates."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How much a search may test, and what it calls bad."""

    pair_rounds: int
    """Rounds of disjoint pairs before suspects are tested again."""
    all_pairs_up_to: int = 4
    """Up to so many nodes every two meet, so that no bad link between two good nodes is passed over."""
    retest_rounds: int = 8
    """Rounds for suspects and slow links."""
    group_rounds: int = 12
    """Rounds with more than two nodes; 0 for none."""
    screen: Mapping[Aspect, float] = field(
        default_factory=lambda: {Aspect.BANDWIDTH: 0.90, Aspect.LATENCY: 0.75}
    )
    """Share of its peers' speed below which a test leads to further tests."""
    accuse: Mapping[Aspect, float] = field(
        default_factory=lambda: {Aspect.BANDWIDTH: 0.85, Aspect.LATENCY: 0.67}
    )
    """Share of its peers' speed below which the median of a node's tests accuses it."""
    screen_deviations: float = 3.0
    """... and so many robust standard deviations below its peers."""
    accuse_deviations: float = 5.0
    """The same for the median of the tests; that of n tests varies less by the root of n."""
    group_drop: float = 0.25
    """Share below its expectation at which a group that ran the pairs' own algorithm is slow."""
    kinds: Mapping[int, str] = field(default_factory=dict)
    """Name of the cards of each node: pairs are compared with pairs of the same cards."""


SMALL = 4
"""Up to so many nodes an accusation is not confirmed: its witnesses are too few."""
PLANS: Mapping[str, Plan] = {
    "quick": Plan(pair_rounds=1, retest_rounds=6, group_rounds=2),
    "standard": Plan(pair_rounds=2, all_pairs_up_to=8, retest_rounds=8, group_rounds=14),
    "deep": Plan(pair_rounds=128, retest_rounds=16, group_rounds=40),
}
"""By mode. A deep search lets every two nodes meet, in up to 128 rounds."""

FLOOR: Mapping[Aspect, float] = {Aspect.BANDWIDTH: 0.02, Aspect.LATENCY: 0.06}
"""Least standard deviation, as a share: equal figures of few tests are no proof of no noise."""
FEW = 12
"""With fewer pairs the spread is not estimated from them alone: twice `FLOOR`, or that of the repetitions."""
BETWEEN = 3.0
"""How much more tests vary than the repetitions inside one: measured with gloo on a machine short of CPU."""
LEAST_OF_KIND = 3
"""With fewer pairs of one kind, near and far ones are compared with each other."""
MANY_REPETITIONS = 20
"""From so many repetitions of one test on, their own spread is well known."""
SCREEN_OF_FEW = 2.0
"""Deviations below its peers at which one of few tests leads to further tests."""
UNSURE = 8.0
"""An accusation by so many tests in all needs twice the deviations: the spread of few is not well known."""
STEADY = 0.18
"""Deviation of the repetitions below which few tests themselves may show how much tests vary."""
HALF_WIDTH = {3: 0.15, 4: 0.91, 5: 0.59, 6: 0.94, 7: 0.72, 8: 0.98, 9: 0.80, 10: 1.0, 11: 0.86}
"""Median width, in deviations, of the narrowest interval that holds more than half of so many normal draws.

Of three it is the width that one draw in five stays below: two of them are often near by chance.
"""
RULE = 0.4
"""Least share of the nodes that were fast once, if the others are to be called slow."""
MANY_LINKS = 0.1
"""Share of the pairs from which slow links are two kinds of path, and not faults of each."""
PROOFS = 3
"""Least number of bad tests that accuse a node, beside different proven ones, or a link, all of its tests."""
MOST_GOOD = 2
"""Good tests of a node that is accused all the same, if more than twice as many accuse it."""
CHANCE = 0.001
"""False accusations of a whole search that chance may make, at the rate of bad tests among good nodes."""
USUAL: Mapping[Aspect, float] = {
    Aspect.FAILURE: 0.03,
    Aspect.BANDWIDTH: 0.03,
    Aspect.LATENCY: 0.05,
    Aspect.LOSS: 0.03,
}
"""Rate of bad tests among good nodes before any was seen; a run outweighs it after some ten tests."""
LOSSY = 0.001
"""Share of segments sent again from which a test is lossy: ten times what healthy networks lose.

Data centres lose 1e-5 to 1e-4 of their packets (Guo et al., "Pingmesh", SIGCOMM 2015, table 1).
"""
LOSSIER = 5.0
"""... and so many times the median test's: a network whose queues overflow makes TCP send again everywhere."""
ONE_SIDED = 3.0
"""How many times as much one direction loses, if only that one is named."""
LEAST_AGAIN = 5
"""Fewer segments sent again in a test are chance."""
NOISY = 0.15
"""Rate of bad tests among good nodes from which slow ones cannot be told from noise."""
DOMAIN_SHARE = 0.6
"""Share of the tested nodes of a domain whose accusations become one of the domain."""
DOMAIN_LEAST = 3
"""Least number of accused nodes in such a domain."""
ABOUT = 0.9
"""A group of this share of another's size is about as large as it."""
TREE_OF_PAIRS = 0.5
"""Least share of the pairs' bus bandwidth that a group reaches if the library chose the algorithm.

Between two nodes NCCL's tree sends half of what a ring sends, so a pair may show twice a group's bus bandwidth.
"""


def plan_for(mode: str, units: Iterable[Unit]) -> Plan:
    """The plan of a mode for these units: pairs are compared with pairs of the same cards."""
    kinds: dict[int, str] = {}
    for unit in units:
        kinds.setdefault(unit.node, unit.name)
    return replace(PLANS.get(mode, PLANS["standard"]), kinds=kinds)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeGroup:
    """Nodes to test together; the groups of one round are disjoint and can run at once."""

    stage: Stage
    round: int
    nodes: tuple[int, ...]
    why: str
    """`pair`, `suspect`, `link`, `all`, `again`, `part`: what the test is for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Accusation:
    """Whom tests accuse of what, with the tests that do."""

    accused: Accused
    nodes: tuple[int, ...]
    """Ascending; two for a link."""
    aspect: Aspect
    confidence: Confidence
    tests: tuple[LinkTest, ...]
    """The bad tests, in their order."""
    own: float | None = None
    """Median of the bad tests, in the unit of the quantity; None for failures."""
    peers: float | None = None
    """What peers reached in the same kind of test."""
    share: float | None = None
    """Speed as a share of the peers' (for a latency: their time by its own)."""
    deviations: float | None = None
    """How many robust standard deviations the median of its tests is below its peers."""
    far_only: bool = False
    """Whether it is bad with nodes of other domains only."""
    sends: float | None = None
    """Of a node or a link: what its first node sends, in bytes a second or the share of segments sent again."""
    receives: float | None = None
    """The same of what its first node receives."""
    direction: str = ""
    """`sends` if only what its first node sends is bad, `receives`; "" for both or if it was not measured."""
    size: int = 0
    """Of a group: the least number of nodes with which the fault showed."""
    undecided: str = ""
    """What more tests would have to decide, a sentence; "" if nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What the tests so far say."""

    accusations: tuple[Accusation, ...]
    proven: tuple[int, ...]
    """Nodes with a good test of each aspect that was measured, and not accused."""
    undecided: tuple[str, ...]
    """What the tests do not decide, a sentence each; nodes are named by their host names."""


def next_round(
    plan: Plan, nodes: Sequence[PreflightNode], tests: Sequence[LinkTest], lost: Collection[int] = ()
) -> tuple[NodeGroup, ...]:
    """The groups of the next round, disjoint; empty when the search is done.

    `tests` are those of all earlier rounds, failed ones included; others (of one node) are ignored. `lost` are
    indices of nodes that take part no longer: no group holds one.
    """
    return _Search(plan, nodes, tests, lost).next_round()


def judge(
    nodes: Sequence[PreflightNode],
    tests: Sequence[LinkTest],
    lost: Collection[int] = (),
    plan: Plan = PLANS["standard"],
) -> Judgement:
    """The accusations that follow from the tests so far, what is proven, and what stays undecided."""
    return _Search(plan, nodes, tests, lost).judgement()


def accusations(
    nodes: Sequence[PreflightNode],
    tests: Sequence[LinkTest],
    lost: Collection[int] = (),
    plan: Plan = PLANS["standard"],
) -> tuple[Accusation, ...]:
    """The accusations of `judge`."""
    return judge(nodes, tests, lost, plan).accusations


# Domains: who is near whom, as far as names and addresses tell.


def domains(nodes: Sequence[PreflightNode]) -> dict[int, str]:
    """The domain of each node by index: the common beginning of host names or addresses; "" without one."""
    for key in (_name_stem, _subnet):
        found = {node.index: key(node) for node in nodes}
        sizes: dict[str, int] = defaultdict(int)
        for stem in found.values():
            sizes[stem] += 1
        together = sum(size for stem, size in sizes.items() if size > 1 and stem)
        if len(sizes) > 1 and 2 * together >= len(nodes):
            return found
    return {node.index: "" for node in nodes}


def _name_stem(node: PreflightNode) -> str:
    """`rack3-node07.cluster` is `rack3-node`: the host's name up to its last number."""
    host = node.name.split(".")[0]
    found = re.match(r"(.*?)\d+\D*$", host)
    return found.group(1) if found else host


def _subnet(node: PreflightNode) -> str:
    """The first three numbers of an IPv4 address; the first four groups of an IPv6 one."""
    if ":" in node.address:
        return ":".join(node.address.split(":")[:4])
    return node.address.rpartition(".")[0]


def _natural(name: str) -> tuple[tuple[int, str], ...]:
    return tuple((int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name))


# Pairs as speeds: the higher the better, in logarithms.


@dataclass(frozen=True, slots=True)
class _Pair:
    """A test of two nodes."""

    test: LinkTest
    a: int
    b: int
    far: bool
    peers: tuple[bool, tuple[str, ...]]
    """Pairs with the same key are peers: near or far, and the names of the cards."""
    speed: Mapping[Aspect, float]
    """Logarithm of the speed, of each aspect that it measured."""
    loss: float | None
    """Share of the segments sent again, in the worse direction; None where TCP did not carry the data."""

    def sends(self, node: int, quantity: Quantity) -> float | None:
        """A figure of the direction from this node to the other one."""
        direction = "forward" if node == self.a else "backward"
        found = (item for item in self.test.figures if item.quantity is quantity)
        return next((item.value for item in found if item.direction == direction), None)

    def other(self, node: int) -> int:
        return self.b if node == self.a else self.a


@dataclass(frozen=True, slots=True)
class _Normal:
    """What pairs of one kind reach."""

    centre: float
    """Logarithm of the speed."""
    deviation: float
    """Robust standard deviation of it."""
    count: int


def _chosen(test: LinkTest, aspect: Aspect) -> Figure | None:
    """The figure that an aspect is judged by: the largest message's bandwidth, the smallest one's latency."""
    if aspect is Aspect.FAILURE:
        return None
    quantity = Quantity.BUS_BANDWIDTH if aspect is Aspect.BANDWIDTH else Quantity.LATENCY
    sign = -1 if aspect is Aspect.BANDWIDTH else 1
    found = [item for item in test.figures if item.quantity is quantity and 0 < item.value < math.inf]
    return min(found, key=lambda item: (sign * item.payload, item.algorithm != "ring"), default=None)


def _loss(test: LinkTest) -> float | None:
    """Share of the segments that TCP sent again, in the worse direction; few are none."""
    counts = [item for item in test.figures if item.quantity is Quantity.RETRANSMITTED]
    shares = (item.value if item.value * item.repetitions >= LEAST_AGAIN else 0.0 for item in counts)
    return max(shares, default=None)


def _speed(figure: Figure) -> float:
    return math.log(figure.value) if figure.quantity is Quantity.BUS_BANDWIDTH else -math.log(figure.value)


def _robust(values: Sequence[float]) -> tuple[float, float]:
    """Median and 1.4826 times the median absolute deviation."""
    centre = median(values)
    return centre, 1.4826 * median(abs(value - centre) for value in values)


def _best(pairs: Iterable[_Pair], aspect: Aspect) -> dict[int, float]:
    """The fastest test of each node."""
    found: dict[int, float] = {}
    for pair in pairs:
        for node in (pair.a, pair.b):
            found[node] = max(found.get(node, -math.inf), pair.speed[aspect])
    return found


def _repetitions(pairs: Iterable[_Pair], aspect: Aspect) -> float:
    """Median standard deviation of the repetitions inside a test, as a share."""
    chosen = (_chosen(pair.test, aspect) for pair in pairs)
    return 1.4826 * median(figure.spread for figure in chosen if figure is not None)


def _width(values: Sequence[float]) -> float:
    """Width of the narrowest interval that holds more than half of the values."""
    ordered, size = sorted(values), len(values) // 2 + 1
    return min(ordered[start + size - 1] - ordered[start] for start in range(len(values) - size + 1))


class _Search:
    """One reading of the tests; made anew for each question."""

    def __init__(
        self,
        plan: Plan,
        nodes: Sequence[PreflightNode],
        tests: Sequence[LinkTest],
        lost: Collection[int],
    ) -> None:
        self.plan = plan
        self.names = {node.index: node.name for node in nodes}
        self.domain = domains(nodes)
        gone = frozenset(lost)
        self.order = [
            node.index
            for node in sorted(nodes, key=lambda item: (_natural(item.name), item.index))
            if node.index not in gone
        ]
        self.alive = frozenset(self.order)
        self.pairs = [self._pair(test) for test in tests if len(test.nodes) == 2 and test.stage is Stage.PAIRS]
        self.groups = [test for test in tests if test.stage is Stage.GROUP and len(test.nodes) > 1]
        self.by_node: dict[int, list[_Pair]] = defaultdict(list)
        for pair in self.pairs:
            self.by_node[pair.a].append(pair)
            self.by_node[pair.b].append(pair)

    def _pair(self, test: LinkTest) -> _Pair:
        a, b = test.nodes
        far = self.domain.get(a, "") != self.domain.get(b, "")
        kinds = tuple(sorted((self.plan.kinds.get(a, ""), self.plan.kinds.get(b, ""))))
        speed = {}
        for aspect in (Aspect.BANDWIDTH, Aspect.LATENCY):
            figure = _chosen(test, aspect)
            if figure is not None and not test.failure:
                speed[aspect] = _speed(figure)
        return _Pair(test, a, b, far, (far, kinds), speed, None if test.failure else _loss(test))

    # What is normal.

    @cached_property
    def aspects(self) -> tuple[Aspect, ...]:
        measured = {aspect for pair in self.pairs for aspect in pair.speed}
        if any(pair.loss is not None for pair in self.pairs):
            measured.add(Aspect.LOSS)
        return tuple(aspect for aspect in Aspect if aspect is Aspect.FAILURE or aspect in measured)

    @cached_property
    def normals(self) -> dict[tuple[Aspect, tuple[bool, tuple[str, ...]]], _Normal]:
        found: dict[tuple[Aspect, tuple[bool, tuple[str, ...]]], _Normal] = {}
        keys = {pair.peers for pair in self.pairs}
        for aspect in (Aspect.BANDWIDTH, Aspect.LATENCY):
            for key in keys:
                pool = [p for p in self.pairs if p.peers[1] == key[1] and aspect in p.speed]
                members = [pair for pair in pool if pair.peers == key]
                ends = Counter(node for pair in members for node in (pair.a, pair.b))
                # Few of a kind, or most of them with one node: near and far ones together.
                if len(members) < FEW and (
                    len(members) < LEAST_OF_KIND or 2 * max(ends.values()) > len(members)
                ):
                    members = pool
                if len(members) >= FEW:
                    found[aspect, key] = self._normal(members, aspect)
                elif members:
                    found[aspect, key] = self._normal_of_few(members, aspect)
            # A pair of different cards is as fast as the slower card allows.
            for key in keys:
                first, last = key[1]
                alone = [found.get((aspect, (key[0], (kind, kind)))) for kind in (first, last)]
                known = [item for item in alone if item is not None]
                own = found.get((aspect, key))
                if first != last and len(known) == 2 and (own is None or own.count < FEW):
                    found[aspect, key] = min(known, key=lambda item: item.centre)
        return found

    def _normal(self, members: Sequence[_Pair], aspect: Aspect) -> _Normal:
        """Centre and spread of the good ones among pairs of one kind."""
        values = [pair.speed[aspect] for pair in members]
        best = _best(members, aspect)
        floor = max(FLOOR[aspect], BETWEEN * _repetitions(members, aspect))
        # One bad rack of four slows half of the far pairs, so the search begins among the fast ones. Where they
        # are those of too few nodes to be the rule, it begins at the median.
        normal, cut = self._fast_ones(values, sorted(values)[int(0.8 * len(values))], floor, aspect)
        if sum(value >= cut for value in best.values()) < RULE * len(best):
            normal, _ = self._fast_ones(values, median(values), floor, aspect)
        return normal

    def _normal_of_few(self, members: Sequence[_Pair], aspect: Aspect) -> _Normal:
        """The same of few pairs: right while half of the nodes are good."""
        best = _best(members, aspect)
        # Retests are mostly those of suspects: each node's best test is what tells how much good ones vary.
        values = [pair.speed[aspect] for pair in members if pair.speed[aspect] in (best[pair.a], best[pair.b])]
        inside = _repetitions(members, aspect)
        deviation = BETWEEN * inside
        if len(values) in HALF_WIDTH and inside < STEADY:
            # The repetitions are few as well, and may overstate how much tests vary.
            deviation = min(deviation, _width(values) / HALF_WIDTH[len(values)])
        return _Normal(median_high(best.values()), max(2 * FLOOR[aspect], deviation), len(members))

    def _fast_ones(
        self, values: Sequence[float], start: float, floor: float, aspect: Aspect
    ) -> tuple[_Normal, float]:
        """Centre and spread of what is not slow beside the centre, and where slow begins."""
        centre, deviation, cut = start, floor, start
        below = -math.log(self.plan.screen[aspect])
        for _ in range(12):
            cut = centre - max(below, self.plan.screen_deviations * deviation)
            good = [value for value in values if value >= cut]
            before = centre, deviation
            centre, spread = _robust(good)
            # The upper half holds no slow test, whatever the cut left in.
            upper = median(value - centre for value in good if value >= centre)
            deviation = max(floor, spread, 1.4826 * upper)
            if (centre, deviation) == before:
                break
        return _Normal(centre, deviation, len(values)), cut

    def bad(self, pair: _Pair, aspect: Aspect) -> bool | None:
        """Whether a test is bad in an aspect; None if it says nothing of it."""
        if aspect is Aspect.FAILURE:
            return bool(pair.test.failure)
        if aspect is Aspect.LOSS:
            return None if pair.loss is None else pair.loss > self.lossy
        if aspect not in pair.speed:
            return None
        normal = self.normals[aspect, pair.peers]
        gap = normal.centre - pair.speed[aspect]
        # Of few tests the deviation is not well known, and another test costs little.
        deviations = self.plan.screen_deviations if normal.count >= FEW else SCREEN_OF_FEW
        deviation = normal.deviation
        figure = _chosen(pair.test, aspect)
        if figure is not None and figure.repetitions >= MANY_REPETITIONS:
            deviation = max(deviation, 1.4826 * figure.spread)  # one that varies inside itself says little
        return gap > -math.log(self.plan.screen[aspect]) and gap > deviations * deviation

    @cached_property
    def usual_loss(self) -> float:
        """What the median test sent again, as a share."""
        known = [pair.loss for pair in self.pairs if pair.loss is not None]
        return median(known) if known else 0.0

    @property
    def lossy(self) -> float:
        """Share of segments sent again beyond which a test is bad."""
        return max(LOSSY, LOSSIER * self.usual_loss)

    # What each node's tests say of it.

    @cached_property
    def verdicts(self) -> dict[tuple[int, bool, Aspect], tuple[list[_Pair], list[_Pair]]]:
        """Of node, near or far, and aspect: its good tests and its bad ones."""
        found: dict[tuple[int, bool, Aspect], tuple[list[_Pair], list[_Pair]]] = {}
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

    def good_tests(self, node: int, far: bool, aspect: Aspect) -> list[_Pair]:
        key = (node, far, aspect)
        return self.verdicts[key][0] if key in self.verdicts else []

    def bad_tests(self, node: int, far: bool, aspect: Aspect) -> list[_Pair]:
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

    def against(self, node: int, distances: Iterable[bool], aspect: Aspect) -> list[_Pair]:
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
                good = verdict is not None and all(
                    self.good_tests(node, pair.far, aspect) for node in (pair.a, pair.b)
                )
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
                    if self._accused(node, distances, aspect, allowed):
                        found[node, aspect] = distances
                        break
        return found

    def _accused(self, node: int, distances: tuple[bool, ...], aspect: Aspect, allowed: int) -> bool:
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
            if any(
                self.bad_tests(node, far, aspect) and not self.proves(node, far, aspect)
                for aspect in self.aspects
            )
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
    def _proven_set(self) -> frozenset[int]:
        return frozenset(self.proven)

    @cached_property
    def links(self) -> dict[tuple[int, int], dict[Aspect, list[_Pair]]]:
        """Bad tests between two nodes that are both good with others."""
        found: dict[tuple[int, int], dict[Aspect, list[_Pair]]] = {}
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

    # The next round.

    def next_round(self) -> tuple[NodeGroup, ...]:
        if len(self.order) < 2:
            return ()
        number = 1 + max((pair.test.round for pair in self.pairs), default=-1)
        planned = self._pair_rounds()
        for index in range(number, len(planned)):
            if planned[index]:
                return tuple(
                    NodeGroup(stage=Stage.PAIRS, round=index, nodes=pair, why="pair") for pair in planned[index]
                )
        if number < len(planned) + self.plan.retest_rounds and not self.groups:
            wanted = self._retests()
            if wanted:
                return tuple(
                    NodeGroup(stage=Stage.PAIRS, round=max(number, len(planned)), nodes=nodes, why=why)
                    for nodes, why in wanted
                )
        return self._next_groups()

    def _pair_rounds(self) -> list[list[tuple[int, int]]]:
        """Rounds of disjoint pairs: two give each node a near and a far partner; more are a round robin."""
        order = self._first_order
        count = len(order)
        everyone = count - 1 + count % 2
        wanted = everyone if count <= self.plan.all_pairs_up_to else self.plan.pair_rounds
        met: set[frozenset[int]] = set()
        rounds: list[list[tuple[int, int]]] = []
        candidates = self._mixed_rounds(order) if wanted < everyone else iter(())
        later = (_circle(order, step) for step in range(everyone))
        for index, pairs in enumerate(chain(candidates, later)):
            if len(rounds) == wanted:
                break
            new = [pair for pair in pairs if frozenset(pair) not in met]
            # A round robin leaves out who has met already; a round of few pairs costs as much as a full one.
            if index < 2 or new:
                rounds.append(new)
                met |= {frozenset(pair) for pair in new}
        return [[pair for pair in pairs if set(pair) <= self.alive] for pairs in rounds]

    @cached_property
    def _first_order(self) -> list[int]:
        """All nodes that can be or were tested: one lost later keeps its place, so that rounds do not shift."""
        known = self.alive | {node for pair in self.pairs for node in (pair.a, pair.b)}
        return sorted(known, key=lambda node: (_natural(self.names.get(node, "")), node))

    @staticmethod
    def _mixed_rounds(order: Sequence[int]) -> Iterator[list[tuple[int, int]]]:
        """Two rounds; in the first, every second quartet of nodes is paired far and the others near."""
        half = len(order) // 2
        low, high = order[:half], order[half : 2 * half]
        for parity in (0, 1):
            pairs = []
            for start in range(0, half, 2):
                stop = start + 2
                if (start // 2) % 2 == parity and stop <= half:
                    pairs += [(low[start], low[start + 1]), (high[start], high[start + 1])]
                else:
                    pairs += list(zip(low[start:stop], high[start:stop], strict=True))
            if len(order) % 2 and parity:  # who sat out in the first round plays for one of the last pair
                first, _ = pairs.pop()
                pairs.append((first, order[-1]))
            yield pairs

    def _retests(self) -> list[tuple[tuple[int, int], str]]:
        """Disjoint tests that suspects and slow links need, as many as fit into one round."""
        used: set[int] = set()
        round_: list[tuple[tuple[int, int], str]] = []

        def take(a: int, b: int, why: str) -> None:
            used.update((a, b))
            round_.append(((a, b), why))

        for node, far in self._in_need():
            if node in used:
                continue
            partner = self._witness(node, far, used)
            if partner is not None:
                take(node, partner, "suspect")
        if len(self.order) == 2 and self.pairs and self.pairs[-1].test.failure:
            a, b = self.order
            return [((a, b), "link")] if len(self.pairs) < PROOFS else []
        for (a, b), found in self.links.items():
            if {a, b} & used or not {a, b} <= self.alive:
                continue
            for aspect in found:
                good, bad = self.repeats(a, b, aspect)
                if not good and bad < self.link_proofs(aspect):
                    take(a, b, "link")
                    break
        return round_

    def _in_need(self) -> list[tuple[int, bool]]:
        """Suspects, nodes that are slow and not clearly so, nodes that no test has proven."""
        asked = {node for node, _ in self.suspects} | self.accused_nodes | set(self.proven)
        unclear = [
            (node, distances[0])
            for (node, aspect), distances in self.guilty.items()
            if node in self.alive and not self._proof(self.against(node, distances, aspect), aspect)
        ]
        return [*self.suspects, *unclear, *((node, False) for node in self.order if node not in asked)]

    def _witness(self, node: int, far: bool, used: Collection[int]) -> int | None:
        """A proven node that has not met this one, at the distance in question if there is one."""
        met = {pair.other(node) for pair in self.by_node[node]} | {node}
        unmet = [other for other in self.order if other not in used and other not in met]
        free = [other for other in unmet if other in self._proven_set] if self.proven else unmet
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

    # Groups: faults that pairs do not show.

    def group_expectation(self, test: LinkTest) -> float | None:
        """Bus bandwidth that a healthy group of this size reaches at least; None if the pairs promise nothing.

        A ring of n ranks sends n pieces, each with the latency of one message: with B of the pairs, latency a
        and payload S it reaches B / (1 + a B n / S). The slowest of n links sets the pace, so the spread of
        the pairs counts as often as the least of n draws is below the median.
        """
        figure = _chosen(test, Aspect.BANDWIDTH)
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
        own = _chosen(beside, Aspect.BANDWIDTH)
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
        figure, least = _chosen(test, Aspect.BANDWIDTH), self.group_expectation(test)
        return figure is not None and least is not None and figure.value < least

    @cached_property
    def group_states(self) -> "tuple[_GroupState, _GroupState]":
        """Of groups that fail, and of groups that are slow: one culprit does not explain both."""
        ran = [test for test in self.groups if not test.failure]
        return (
            _GroupState(self.groups, [bool(test.failure) for test in self.groups]),
            _GroupState(ran, [self.group_slow(test) for test in ran]),
        )

    @cached_property
    def blurred(self) -> Mapping[Aspect, float]:
        """Aspects in which tests vary so much that half the speed is not told from chance: their deviation."""
        most = math.log(2) / self.plan.screen_deviations
        found: dict[Aspect, float] = {}
        for (aspect, _), normal in self.normals.items():
            if normal.deviation > most:
                found[aspect] = max(found.get(aspect, 0.0), normal.deviation)
        return found

    def _next_groups(self) -> tuple[NodeGroup, ...]:
        number = 1 + max((test.round for test in self.groups), default=-1)
        # A slow link would make each group slow that holds both of its ends: one of them stays out.
        ends = {
            max(link)
            for link, found in self.links.items()
            for aspect in found
            if not self.repeats(*link, aspect)[0]
        }
        everyone = tuple(sorted(node for node in self.proven if node not in ends))
        if number >= self.plan.group_rounds or len(everyone) < 3:
            return ()
        if not self.groups:
            return (NodeGroup(stage=Stage.GROUP, round=0, nodes=everyone, why="all"),)
        failing, slow = self.group_states
        found = failing.next_sets(frozenset(everyone)) or slow.next_sets(
            frozenset(everyone).difference(failing.suspects(), failing.culprits)
        )
        return tuple(
            NodeGroup(stage=Stage.GROUP, round=number, nodes=tuple(sorted(nodes)), why=why)
            for nodes, why in found
        )

    # Accusations.

    def judgement(self) -> Judgement:
        undecided = [
            f"The {aspect.value} is too noisy: {self.chance[aspect]:.0%} of the tests of good nodes are slow."
            for aspect in self.aspects[1:]
            if len(self.pairs) >= FEW and self.chance[aspect] > NOISY
        ]
        undecided += [
            f"The {aspect.value} varies by {math.expm1(deviation):.0%} from test to test: a node at half the "
            "speed of the others would not show."
            for aspect, deviation in self.blurred.items()
        ]
        found = [*self._of_nodes(undecided), *self._of_links(undecided)]
        found += self._of_suspects({node for item in found for node in item.nodes})
        found += self._of_groups(undecided)
        named = {node for item in found if item.accused is not Accused.LINK for node in item.nodes}
        unmet = [node for node in self.order if not self.by_node[node]]
        if unmet and len(self.order) > 1:
            names = ", ".join(self.names[node] for node in unmet[:8]) + (" ..." if len(unmet) > 8 else "")
            undecided.append(f"No test with another node was made on {names}.")
        proven = tuple(sorted(node for node in self.proven if node not in named))
        return Judgement(accusations=tuple(found), proven=proven, undecided=tuple(undecided))

    def _measured(
        self, pairs: Sequence[_Pair], aspect: Aspect
    ) -> tuple[float | None, float | None, float | None, float | None]:
        """Own figure, peers', share of their speed, and deviations below them, each the median of the tests."""
        if aspect is Aspect.LOSS:
            losses = [pair.loss for pair in pairs if pair.loss is not None]
            return median(losses) if losses else None, self.usual_loss, None, None
        gaps, own, peers = [], [], []
        for pair in pairs:
            if aspect in pair.speed:
                normal = self.normals[aspect, pair.peers]
                gaps.append((normal.centre - pair.speed[aspect], normal.deviation))
                sign = 1 if aspect is Aspect.BANDWIDTH else -1
                own.append(math.exp(sign * pair.speed[aspect]))
                peers.append(math.exp(sign * normal.centre))
        if not gaps:
            return None, None, None, None
        gap = median(gap for gap, _ in gaps)
        deviations = gap / median(deviation for _, deviation in gaps)
        return median(own), median(peers), math.exp(-gap), deviations

    def _proof(self, pairs: Sequence[_Pair], aspect: Aspect) -> bool:
        """Whether the tests together are slow enough, and clearly enough, to accuse."""
        if aspect in (Aspect.FAILURE, Aspect.LOSS):
            return True
        _, _, share, deviations = self._measured(pairs, aspect)
        if share is None or deviations is None:
            return False
        # Where chance makes factors of two, it does so in several tests of a row: they do not add up.
        more = 1.0 if aspect in self.blurred else math.sqrt(len(pairs))
        tests = min(self.normals[aspect, pair.peers].count for pair in pairs if aspect in pair.speed)
        least = self.plan.accuse_deviations * (1 + UNSURE / tests if tests < FEW else 1)
        clear = deviations * more >= least
        return share <= self.plan.accuse[aspect] and clear

    def _accusation(
        self,
        accused: Accused,
        nodes: Iterable[int],
        aspect: Aspect,
        confidence: Confidence,
        pairs: Sequence[_Pair],
        *,
        far_only: bool = False,
        undecided: str = "",
    ) -> Accusation:
        own, peers, share, deviations = self._measured(pairs, aspect)
        named = tuple(sorted(nodes))
        sends = receives = None
        direction = ""
        if accused in (Accused.NODE, Accused.LINK) and aspect in (Aspect.BANDWIDTH, Aspect.LOSS):
            sends, receives, direction = self._directions(named[0], pairs, aspect)
        return Accusation(
            accused=accused,
            nodes=named,
            sends=sends,
            receives=receives,
            direction=direction,
            aspect=aspect,
            confidence=confidence,
            tests=tuple({id(pair.test): pair.test for pair in pairs}.values()),
            own=own,
            peers=peers,
            share=share,
            deviations=deviations,
            far_only=far_only,
            undecided=undecided,
        )

    def _directions(
        self, node: int, pairs: Sequence[_Pair], aspect: Aspect
    ) -> tuple[float | None, float | None, str]:
        """What a node sends and receives, the median of its bad tests, and which of the two alone is bad."""
        quantity = Quantity.RETRANSMITTED if aspect is Aspect.LOSS else Quantity.ONE_WAY_BANDWIDTH
        out = [value for pair in pairs if (value := pair.sends(node, quantity)) is not None]
        into = [value for pair in pairs if (value := pair.sends(pair.other(node), quantity)) is not None]
        if not out or not into:
            return None, None, ""
        sends, receives = median(out), median(into)
        if aspect is Aspect.LOSS:
            # Lost acknowledgements make the other side send some segments again, too.
            bad = sends > ONE_SIDED * receives, receives > ONE_SIDED * sends
        else:
            good = [pair for pair in self.pairs if self.bad(pair, aspect) is False]
            peers = [
                value
                for pair in good
                for end in (pair.a, pair.b)
                if (value := pair.sends(end, quantity)) is not None
            ]
            least = self.plan.accuse[aspect] * median(peers) if peers else math.inf
            bad = sends < least, receives < least
        return sends, receives, {(True, False): "sends", (False, True): "receives"}.get(bad, "")

    def _of_nodes(self, undecided: list[str]) -> list[Accusation]:
        evidence: dict[tuple[Aspect, str], dict[int, list[_Pair]]] = {}
        for (node, aspect), distances in self.guilty.items():
            pairs = self.against(node, distances, aspect)
            if self._proof(pairs, aspect):
                evidence.setdefault((aspect, self.domain.get(node, "")), {})[node] = pairs
            else:
                share = self._measured(pairs, aspect)[2] or 1.0
                undecided.append(
                    f"{self.names[node]} reached {share:.0%} of the speed of its peers ({aspect.value}): "
                    "too little below them to accuse it."
                )
        found: list[Accusation] = []
        for (aspect, domain), members in evidence.items():
            found += self._of_domain(aspect, domain, members)
        return found

    def _of_domain(self, aspect: Aspect, domain: str, members: Mapping[int, list[_Pair]]) -> list[Accusation]:
        """Accusations of the nodes of one domain; one for all of them if most are bad with other domains."""
        mates = [node for node in self.by_node if self.domain.get(node, "") == domain]
        others = len(self.by_node) - len(mates)
        alone = {node for node in members if self._accused(node, (False,), aspect, 0)}
        far = {node for node, pairs in members.items() if any(pair.far for pair in pairs)}
        crowd = far if len(far - alone) >= DOMAIN_LEAST else set()
        far_only = bool(crowd)
        if not crowd:
            crowd = set(members)
        never = {
            node for node in mates if not any(self.good_tests(node, at, aspect) for at in {far_only, True})
        }
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
                found.append(
                    self._accusation(Accused.NODE, (node,), aspect, self._confidence(), pairs, far_only=only)
                )
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
                f"{slow} pairs of good nodes are slow: that is a second kind of path, not a bad link."
            )
        for (a, b), by_aspect in self.links.items():
            for aspect, pairs in by_aspect.items():
                if crowd and aspect is not Aspect.FAILURE:
                    continue
                good, bad = self.repeats(a, b, aspect)
                if good:
                    if aspect is Aspect.FAILURE:
                        undecided.append(
                            f"{bad} of {bad + good} tests of {self.names[a]} with {self.names[b]} failed."
                        )
                elif bad >= self.link_proofs(aspect) and self._proof(pairs, aspect):
                    found.append(self._accusation(Accused.LINK, (a, b), aspect, self._confidence(), pairs))
                elif aspect is Aspect.FAILURE or self._proof(pairs, aspect):
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
                if against and self._proof(against, aspect) and len(self.by_node) > 2:
                    found.append(
                        self._accusation(
                            Accused.NODE, (node,), aspect, Confidence.SUSPECTED, against, far_only=False,
                            undecided="More tests with proven nodes would show whether it is this one.",
                        )
                    )  # fmt: skip
                    continue
                for pair in bad:
                    ends = frozenset((pair.a, pair.b))
                    same = [item for item in bad if {item.a, item.b} == ends]
                    if ends & set(named) or (ends, aspect) in seen or not self._proof(same, aspect):
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
                undecided.append("A group was slow or failed once, and was good when it was tested again.")
            found += self._of_state(state)
        return found

    def _of_state(self, state: "_GroupState") -> list[Accusation]:
        found = []
        for nodes, bad in state.accused():
            figures = [figure.value for test in bad if (figure := _chosen(test, Aspect.BANDWIDTH)) is not None]
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
                    undecided="" if one else "Smaller groups did not show which of these nodes it is.",
                )
            )
        return found


class _GroupState:
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

    def next_sets(self, everyone: frozenset[int]) -> list[tuple[frozenset[int], str]]:
        """Sets to test next, disjoint; empty when nothing is left to ask."""
        rest = everyone - set(self.culprits)
        bad = self.unexplained()
        if not bad:
            if not self.culprits or len(rest) < 3:
                return []
            if rest not in self.tested:
                return [(rest, "all")]
            if len(self.culprits) > 1:  # each of them alone among the good ones
                alone = ((rest | {node}, "suspect") for node in self.culprits)
                return [item for item in alone if item[0] not in self.tested][:1]
            return []
        if len(bad) == 1 and self.tested[frozenset(bad[0].nodes)] == 1 and everyone.issuperset(bad[0].nodes):
            return [(frozenset(bad[0].nodes), "again")]
        size = min(len(test.nodes) for test in bad)
        suspects = self.suspects() & rest
        if not suspects or (len(suspects) == 1 and len(bad) > 1):
            return []
        for sets in self._questions(sorted(rest), sorted(suspects), size):
            new = [(nodes, "part") for nodes in sets if nodes not in self.tested and len(nodes) > 2]
            if new:
                return new
        return []

    def _questions(
        self, rest: Sequence[int], suspects: Sequence[int], size: int
    ) -> Iterator[list[frozenset[int]]]:
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
        # Nobody is cleared: halves of all, each time cut in another way, until one of them is good.
        bits = max(1, (len(rest) - 1).bit_length())
        for bit in range(min(bits, 5)):
            shift = bits - 1 - bit
            ones = frozenset(node for place, node in enumerate(rest) if place >> shift & 1)
            sets = [frozenset(rest) - ones, ones] if bit else _halves(rest)
            if bit and not any(set(nodes) in map(set, self._bad_sets()) for nodes in _halves(rest)):
                break  # halves do not show it, however they are cut
            yield sets
        # A fault of more than half of them: leave out a quarter, an eighth, ...; it goes with one of them.
        for share in (4, 8, 16):
            step = max(1, len(rest) // share)
            if len(rest) - step >= ABOUT * size and not whole:
                continue
            for start in range(0, len(rest), step):
                yield [frozenset([*rest[:start], *rest[start + step :]])]

    def _bad_sets(self) -> list[tuple[int, ...]]:
        return [test.nodes for test in self.lasting]

    def accused(self) -> list[tuple[frozenset[int], list[LinkTest]]]:
        """Each culprit with the bad groups that held it; then what is left between several candidates."""
        found = [
            (frozenset((node,)), [test for test in self.lasting if node in test.nodes])
            for node in self.culprits
        ]
        rest, bad = self.suspects(), self.unexplained()
        if rest and bad:
            found.append((rest, [test for test in bad if rest & set(test.nodes)]))
        return found


def _halves(nodes: Sequence[int]) -> list[frozenset[int]]:
    half = len(nodes) // 2
    return [frozenset(nodes[:half]), frozenset(nodes[half:])]


def _circle(order: Sequence[int], step: int) -> list[tuple[int, int]]:
    """Round `step` of a round robin: the first stays, the others turn."""
    players: list[int | None] = list(order) + [None] * (len(order) % 2)
    rest = players[1:]
    turn = step % len(rest)
    ring = [players[0], *rest[turn:], *rest[:turn]]
    size = len(ring)
    pairs = ((ring[i], ring[size - 1 - i]) for i in range(size // 2))
    return [(a, b) for a, b in pairs if a is not None and b is not None]
