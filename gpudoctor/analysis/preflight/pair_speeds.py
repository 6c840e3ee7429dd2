"""Tests of two nodes as speeds, what is normal among them, and which of them are bad.

A speed is a logarithm: the higher the better. A test is bad if it failed, or if it is slower than its peers by
a share and by several standard deviations.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from statistics import median, median_high
from typing import NamedTuple

from gpudoctor.analysis.preflight.accusation import Aspect
from gpudoctor.analysis.preflight.node_domains import domains, natural_order
from gpudoctor.analysis.preflight.search_plan import Plan
from gpudoctor.model.records import frozen
from gpudoctor.model.signs.preflight import Figure, LinkTest, PreflightNode, Quantity, Stage

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
LOSSY = 0.001
"""Share of segments sent again from which a test is lossy: ten times what healthy networks lose.

Data centres lose 1e-5 to 1e-4 of their packets (Guo et al., "Pingmesh", SIGCOMM 2015, table 1).
"""
LOSSIER = 5.0
"""... and so many times the median test's: a network whose queues overflow makes TCP send again everywhere."""
LEAST_AGAIN = 5
"""Fewer segments sent again in a test are chance."""


@frozen(kw_only=False)
class PairTest:
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

    def other(self, node: int) -> int:
        """The partner of a node."""
        return self.b if node == self.a else self.a


@frozen(kw_only=False)
class NormalSpeed:
    """What pairs of one kind reach."""

    centre: float
    """Logarithm of the speed."""
    deviation: float
    """Robust standard deviation of it."""
    count: int


class Measured(NamedTuple):
    """What bad tests measured beside their peers."""

    own: float | None = None
    """In the unit of the quantity; None for failures."""
    peers: float | None = None
    """What peers reached in the same kind of test."""
    share: float | None = None
    """Speed as a share of the peers' (for a latency: their time by its own)."""
    deviations: float | None = None
    """How many robust standard deviations it is below its peers."""


def judged_figure(test: LinkTest, aspect: Aspect) -> Figure | None:
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


def _best(pairs: Iterable[PairTest], aspect: Aspect) -> dict[int, float]:
    """The fastest test of each node."""
    found: dict[int, float] = {}
    for pair in pairs:
        for node in (pair.a, pair.b):
            found[node] = max(found.get(node, -math.inf), pair.speed[aspect])
    return found


def _repetitions(pairs: Iterable[PairTest], aspect: Aspect) -> float:
    """Median standard deviation of the repetitions inside a test, as a share."""
    chosen = (judged_figure(pair.test, aspect) for pair in pairs)
    return 1.4826 * median(figure.spread for figure in chosen if figure is not None)


def _width(values: Sequence[float]) -> float:
    """Width of the narrowest interval that holds more than half of the values."""
    ordered, size = sorted(values), len(values) // 2 + 1
    return min(ordered[start + size - 1] - ordered[start] for start in range(len(values) - size + 1))


class PairSpeeds:
    """The tests of two nodes so far, each beside its peers."""

    def __init__(
        self, plan: Plan, nodes: Sequence[PreflightNode], tests: Sequence[LinkTest], lost: Collection[int]
    ) -> None:
        self.plan = plan
        self.names = {node.index: node.name for node in nodes}
        self.domain = domains(nodes)
        gone = frozenset(lost)
        self.order = [
            node.index
            for node in sorted(nodes, key=lambda item: (natural_order(item.name), item.index))
            if node.index not in gone
        ]
        self.alive = frozenset(self.order)
        self.pair_tests = [test for test in tests if len(test.nodes) == 2 and test.stage is Stage.PAIRS]
        self.groups = [test for test in tests if test.stage is Stage.GROUP and len(test.nodes) > 1]

    @cached_property
    def pairs(self) -> list[PairTest]:
        """The tests of two nodes."""
        return [self._pair(test) for test in self.pair_tests]

    @cached_property
    def by_node(self) -> dict[int, list[PairTest]]:
        """The tests of each node."""
        found: dict[int, list[PairTest]] = defaultdict(list)
        for pair in self.pairs:
            found[pair.a].append(pair)
            found[pair.b].append(pair)
        return found

    def _pair(self, test: LinkTest) -> PairTest:
        a, b = test.nodes
        far = self.domain.get(a, "") != self.domain.get(b, "")
        kinds = tuple(sorted((self.plan.kinds.get(a, ""), self.plan.kinds.get(b, ""))))
        speed = {}
        for aspect in (Aspect.BANDWIDTH, Aspect.LATENCY):
            figure = judged_figure(test, aspect)
            if figure is not None and not test.failure:
                speed[aspect] = _speed(figure)
        return PairTest(test, a, b, far, (far, kinds), speed, None if test.failure else _loss(test))

    @cached_property
    def aspects(self) -> tuple[Aspect, ...]:
        """Aspects that were measured, failures first."""
        measured = {aspect for pair in self.pairs for aspect in pair.speed}
        if any(pair.loss is not None for pair in self.pairs):
            measured.add(Aspect.LOSS)
        return tuple(aspect for aspect in Aspect if aspect is Aspect.FAILURE or aspect in measured)

    @cached_property
    def normals(self) -> dict[tuple[Aspect, tuple[bool, tuple[str, ...]]], NormalSpeed]:
        """What is normal in an aspect among pairs with the same `PairTest.peers`."""
        found: dict[tuple[Aspect, tuple[bool, tuple[str, ...]]], NormalSpeed] = {}
        keys = {pair.peers for pair in self.pairs}
        for aspect in (Aspect.BANDWIDTH, Aspect.LATENCY):
            for key in keys:
                pool = [p for p in self.pairs if p.peers[1] == key[1] and aspect in p.speed]
                members = [pair for pair in pool if pair.peers == key]
                ends = Counter(node for pair in members for node in (pair.a, pair.b))
                # Few of a kind, or most of them with one node: near and far ones together.
                if len(members) < FEW and (len(members) < LEAST_OF_KIND or 2 * max(ends.values()) > len(members)):
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

    def _normal(self, members: Sequence[PairTest], aspect: Aspect) -> NormalSpeed:
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

    def _normal_of_few(self, members: Sequence[PairTest], aspect: Aspect) -> NormalSpeed:
        """The same of few pairs: right while half of the nodes are good."""
        best = _best(members, aspect)
        # Retests are mostly those of suspects: each node's best test is what tells how much good ones vary.
        values = [pair.speed[aspect] for pair in members if pair.speed[aspect] in (best[pair.a], best[pair.b])]
        inside = _repetitions(members, aspect)
        deviation = BETWEEN * inside
        if len(values) in HALF_WIDTH and inside < STEADY:
            # The repetitions are few as well, and may overstate how much tests vary.
            deviation = min(deviation, _width(values) / HALF_WIDTH[len(values)])
        return NormalSpeed(median_high(best.values()), max(2 * FLOOR[aspect], deviation), len(members))

    def _fast_ones(
        self, values: Sequence[float], start: float, floor: float, aspect: Aspect
    ) -> tuple[NormalSpeed, float]:
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
        return NormalSpeed(centre, deviation, len(values)), cut

    def bad(self, pair: PairTest, aspect: Aspect) -> bool | None:
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
        figure = judged_figure(pair.test, aspect)
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

    @cached_property
    def blurred(self) -> Mapping[Aspect, float]:
        """Aspects in which tests vary so much that half the speed is not told from chance: their deviation."""
        most = math.log(2) / self.plan.screen_deviations
        found: dict[Aspect, float] = {}
        for (aspect, _), normal in self.normals.items():
            if normal.deviation > most:
                found[aspect] = max(found.get(aspect, 0.0), normal.deviation)
        return found

    def measured(self, pairs: Sequence[PairTest], aspect: Aspect) -> Measured:
        """What the tests say together, each number their median; nothing for failures."""
        if aspect is Aspect.LOSS:
            losses = [pair.loss for pair in pairs if pair.loss is not None]
            return Measured(own=median(losses) if losses else None, peers=self.usual_loss)
        told = [pair for pair in pairs if aspect in pair.speed]
        if not told:
            return Measured()
        normals = [self.normals[aspect, pair.peers] for pair in told]
        sign = 1 if aspect is Aspect.BANDWIDTH else -1
        gap = median(normal.centre - pair.speed[aspect] for pair, normal in zip(told, normals, strict=True))
        return Measured(
            own=median(math.exp(sign * pair.speed[aspect]) for pair in told),
            peers=median(math.exp(sign * normal.centre) for normal in normals),
            share=math.exp(-gap),
            deviations=gap / median(normal.deviation for normal in normals),
        )

    def proof(self, pairs: Sequence[PairTest], aspect: Aspect) -> bool:
        """Whether the tests together are slow enough, and clearly enough, to accuse."""
        if aspect in (Aspect.FAILURE, Aspect.LOSS):
            return True
        measured = self.measured(pairs, aspect)
        if measured.share is None or measured.deviations is None:
            return False
        # Where chance makes factors of two, it does so in several tests of a row: they do not add up.
        more = 1.0 if aspect in self.blurred else math.sqrt(len(pairs))
        tests = min(self.normals[aspect, pair.peers].count for pair in pairs if aspect in pair.speed)
        least = self.plan.accuse_deviations * (1 + UNSURE / tests if tests < FEW else 1)
        return measured.share <= self.plan.accuse[aspect] and measured.deviations * more >= least
