"""How much a search for bad nodes may test in each mode, and what it calls bad."""

from collections.abc import Iterable, Mapping

from gpudoctor.analysis.preflight.accusation import Aspect
from gpudoctor.model.records import field, frozen, replace
from gpudoctor.model.signs.preflight import Stage, Unit


@frozen
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
    screen: Mapping[Aspect, float] = field(default_factory=lambda: {Aspect.BANDWIDTH: 0.90, Aspect.LATENCY: 0.75})
    """Share of its peers' speed below which a test leads to further tests."""
    accuse: Mapping[Aspect, float] = field(default_factory=lambda: {Aspect.BANDWIDTH: 0.85, Aspect.LATENCY: 0.67})
    """Share of its peers' speed below which the median of a node's tests accuses it."""
    screen_deviations: float = 3.0
    """... and so many robust standard deviations below its peers."""
    accuse_deviations: float = 5.0
    """The same for the median of the tests; that of n tests varies less by the root of n."""
    group_drop: float = 0.25
    """Share below its expectation at which a group that ran the pairs' own algorithm is slow."""
    kinds: Mapping[int, str] = field(default_factory=dict)
    """Name of the cards of each node: pairs are compared with pairs of the same cards."""


PLANS: Mapping[str, Plan] = {
    "quick": Plan(pair_rounds=1, retest_rounds=6, group_rounds=2),
    "standard": Plan(pair_rounds=2, all_pairs_up_to=8, retest_rounds=8, group_rounds=14),
    "deep": Plan(pair_rounds=128, retest_rounds=16, group_rounds=40),
}
"""By mode. A deep search lets every two nodes meet, in up to 128 rounds."""


def plan_for(mode: str, units: Iterable[Unit]) -> Plan:
    """The plan of a mode for these units: pairs are compared with pairs of the same cards."""
    kinds: dict[int, str] = {}
    for unit in units:
        kinds.setdefault(unit.node, unit.name)
    return replace(PLANS.get(mode, PLANS["standard"]), kinds=kinds)


@frozen
class NodeGroup:
    """Nodes to test together; the groups of one round are disjoint and can run at once."""

    stage: Stage
    round: int
    nodes: tuple[int, ...]
