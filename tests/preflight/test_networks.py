"""Nodes that are network namespaces: a slow link, one way too, a way that is blocked, one of two networks.

They need root and iproute2, and are skipped with the reason where they cannot be had.
"""

import pytest
from namespaces import network, why_not
from preflight_agent import ENDED_WITH
from preflight_ranks import examine

from gpudoctor.analysis.preflight.accusation import Accused
from gpudoctor.analysis.preflight.judging import judge
from gpudoctor.model.plain_data import from_plain
from gpudoctor.model.signs.preflight import LinkTest, PreflightNode

pytestmark = [
    pytest.mark.skipif(bool(why_not()), reason=f"no network namespace: {why_not()}"),
    pytest.mark.xdist_group("namespaces"),
]
REAL = {"environment": {"STANDIN_REAL": "1"}, "group_seconds": 0.3, "test_limit": 6.0, "payload": 1 << 20, "node": None}


def run(net, count, **common):
    """The ranks are forked, and each goes to the network of its node."""
    common = {"limits": {"pairs": 20.0, "group": 10.0}, **common}
    own = {rank: {**REAL, **common, "head": net.address(0), "net": net.names[rank]} for rank in range(count)}
    return examine(own, within=90)


def accused(found):
    """Whom the search accuses by the tests that were made."""
    nodes = [PreflightNode(index=item["index"], name=f"n{item['index']}", ranks=()) for item in found["nodes"]]
    tests = [from_plain(LinkTest, item) for item in found["tests"]]
    return {(item.accused, item.nodes) for item in judge(nodes, tests).accusations}


@pytest.mark.slow
@pytest.mark.parametrize("sending", [True, False], ids=["sends", "receives"])
def test_a_node_that_is_slow_one_way_is_accused(sending):
    """A busy machine slows the other way down, too, and no direction is named then: it is played again."""
    with network(4) as net:
        for index in range(4):
            net.slow(index, 200)
        net.slow(2, 20, sending=sending)
        for _ in range(3):
            ended = run(net, 4)
            if (Accused.NODE, (2,)) in accused(ended.found):
                break
    assert len(ended.found["nodes"]) == 4  # one host name, four namespaces
    assert [node["address"] for node in ended.found["nodes"]] == [net.address(index) for index in range(4)]
    assert (Accused.NODE, (2,)) in accused(ended.found)
    assert set(ended.codes.values()) == {ENDED_WITH} and not ended.left


@pytest.mark.slow
def test_a_way_that_is_blocked_between_two_nodes_is_a_failed_test_and_no_loss():
    with network(3) as net:
        net.block(1, 2)
        net.block(2, 1)
        ended = run(net, 3)
    failed = {
        tuple(sorted(test["nodes"])) for test in ended.found["tests"] if test["failure"] and len(test["nodes"]) == 2
    }
    assert failed == {(1, 2)}
    assert ended.losses() == [] and set(ended.codes.values()) == {ENDED_WITH}
