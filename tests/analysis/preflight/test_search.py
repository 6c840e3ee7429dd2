"""Which groups come next, and whom the tests accuse: real searches on small clusters with known faults."""

from collections.abc import Callable
from itertools import cycle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpudoctor.analysis.preflight.accusation import Accused, Aspect
from gpudoctor.analysis.preflight.judging import judge
from gpudoctor.analysis.preflight.search import next_round
from gpudoctor.analysis.preflight.search_plan import PLANS, NodeGroup
from gpudoctor.model.finding import Confidence
from gpudoctor.model.signs.preflight import Figure, LinkTest, PreflightNode, Quantity

GIB = 1 << 30


def nodes(count, name=lambda index: f"node{index}"):
    return [PreflightNode(index=index, name=name(index), ranks=(index,)) for index in range(count)]


def racks(count, size):
    return nodes(count, lambda index: f"rack{index // size}-node{index % size}")


def result(group: NodeGroup, share=1.0, wait=1.0, failure="", blamed=()):
    if failure:
        return LinkTest(stage=group.stage, round=group.round, nodes=group.nodes, failure=failure, blamed=blamed)
    figures = (
        Figure(quantity=Quantity.BUS_BANDWIDTH, value=40e9 * share, payload=GIB, repetitions=5, algorithm="ring"),
        Figure(quantity=Quantity.LATENCY, value=20e-6 * wait, payload=8, repetitions=5),
    )
    return LinkTest(stage=group.stage, round=group.round, nodes=group.nodes, figures=figures)


def searched(members, measure: Callable[[NodeGroup], LinkTest], plan=PLANS["standard"], lost=()):
    """All tests of a whole search, and the number of rounds."""
    tests, rounds = [], 0
    while groups := next_round(plan, members, tests, lost):
        used = [node for group in groups for node in group.nodes]
        assert len(used) == len(set(used)), "groups of a round share a node"
        assert not set(used) & set(lost)
        tests += [measure(group) for group in groups]
        rounds += 1
        assert rounds < 200
    return tests, rounds


def accusations(*read, **more):
    """Whom a search accuses."""
    return judge(*read, **more).accusations


def test_a_healthy_cluster_accuses_nobody_and_proves_all():
    members = racks(16, 4)
    tests, rounds = searched(members, result)
    said = judge(members, tests)
    assert said.accusations == () and said.undecided == ()
    assert said.proven == tuple(range(16))
    assert rounds == 3  # two of pairs, one of all


def test_a_slow_link_between_two_good_nodes_accuses_the_link():
    members = nodes(16)
    pair = next_round(PLANS["standard"], members, ())[2].nodes
    tests, _ = searched(members, lambda group: result(group, 0.4 if set(pair) <= set(group.nodes) else 1.0))
    (found,) = accusations(members, tests)
    assert (found.accused, found.nodes) == (Accused.LINK, tuple(sorted(pair)))
    assert set(pair) <= set(judge(members, tests).proven)


def test_a_failed_pair_blames_both_until_one_is_proven():
    members = nodes(8)
    first = next_round(PLANS["standard"], members, ())
    bad = first[0].nodes[0]
    one = [result(group, failure="timed out after 20 s" if bad in group.nodes else "") for group in first]
    said = judge(members, one)
    (both,) = said.accusations
    assert both.nodes == tuple(sorted(first[0].nodes)) and both.confidence is Confidence.SUSPECTED
    assert not set(first[0].nodes) & set(said.proven)
    tests, _ = searched(
        members, lambda group: result(group, failure="timed out after 20 s" if bad in group.nodes else "")
    )
    (found,) = accusations(members, tests)
    assert (found.nodes, found.aspect) == ((bad,), Aspect.FAILURE)


def test_a_rack_behind_a_slow_uplink_is_one_accusation():
    members = racks(32, 8)
    inside = set(range(8, 16))
    tests, _ = searched(
        members, lambda group: result(group, 0.5 if set(group.nodes) & inside and set(group.nodes) - inside else 1.0)
    )
    (found,) = accusations(members, tests)
    assert found.accused is Accused.DOMAIN and set(found.nodes) == inside and found.far_only


@pytest.mark.parametrize(("size", "named"), [(4, (11,)), (14, tuple(range(16)))])
def test_a_fault_that_only_large_groups_show_is_found_by_halves(size, named):
    members = nodes(16)
    tests, _ = searched(
        members, lambda group: result(group, 0.4 if 11 in group.nodes and len(group.nodes) >= size else 1.0)
    )
    (found,) = judge(members, tests).accusations
    assert (found.accused, found.nodes) == (Accused.GROUP, named)
    assert all(len(test.nodes) >= size for test in found.tests)


SIZES = (2, 3, 4, 5, 7, 8, 9, 16, 17)
"""Numbers of nodes at which the rounds change: few, odd ones, all pairs, two rounds."""


@settings(max_examples=10)
@given(st.sampled_from(SIZES), st.data())
def test_any_one_bad_node_or_failing_node_is_the_only_one_named(count, data):
    members = nodes(count)
    bad = data.draw(st.integers(0, count - 1))
    failing = data.draw(st.booleans())
    mode = data.draw(st.sampled_from(list(PLANS)))

    def measure(group):
        if bad not in group.nodes:
            return result(group)
        return result(group, failure="timed out after 20 s") if failing else result(group, 0.5)

    tests, _ = searched(members, measure, PLANS[mode])
    found = accusations(members, tests, plan=PLANS[mode])
    if count == 2:
        assert all(item.accused is Accused.LINK for item in found)
    else:
        assert {item.nodes for item in found if item.accused is Accused.NODE} == {(bad,)}
        weak = found[0].confidence is Confidence.SUSPECTED
        assert weak if count == 3 else not weak or count == 4


@settings(max_examples=6)
@given(
    st.sampled_from(SIZES[1:]),
    st.lists(st.floats(0.97, 1.03), min_size=16, max_size=64),
    st.sets(st.integers(0, 16), max_size=3),
)
def test_three_percent_of_noise_accuses_nobody_whoever_is_lost(count, noise, lost):
    members = nodes(count)
    values = cycle(noise)
    gone = {node for node in lost if node < count}
    tests, _ = searched(members, lambda group: result(group, next(values), 1 / next(values)), lost=gone)
    said = judge(members, tests, gone)
    assert said.accusations == () and not gone & set(said.proven)
