import pytest
from preflights import GB, H100, figure, patient, unit

from gpudoctor.model import Severity, Unavailable
from gpudoctor.model.signs.preflight import LinkTest, Quantity, Stage
from gpudoctor.testing import examine, prescribe
from gpudoctor_checks.node.peer_link_slow import PeerLinkSlow
from gpudoctor_rules.advice import advice


def whole(node, speed, algorithm="ring", failure=""):
    figures = () if failure else (figure(Quantity.BUS_BANDWIDTH, speed, payload=1 << 30, algorithm=algorithm),)
    places = tuple((node, local) for local in range(8))
    return LinkTest(stage=Stage.NODE, round=0, nodes=(node,), units=places, figures=figures, failure=failure)


def copy(node, first, second, speed):
    return LinkTest(
        stage=Stage.NODE, round=1, nodes=(node,), units=((node, first), (node, second)),
        figures=(figure(Quantity.PEER_BANDWIDTH, speed, payload=1 << 28),),
    )  # fmt: skip


def cards(nodes, name=H100):
    return tuple(unit(node, local, name=name) for node in range(nodes) for local in range(8))


def test_sick_one_node_of_five_is_slow_inside():
    tests = tuple(whole(node, 200 * GB if node == 2 else 360 * GB) for node in range(5))
    found = patient(5, units=cards(5, "Somebody's card"), tests=tests)
    [finding] = examine(PeerLinkSlow, found)
    assert finding.message.startswith("The all-reduce (ring) inside node02 reaches 200 GB/s")
    assert [item.id for item in prescribe(advice("node"), finding, found)] == ["NODE005-leave-out", "NODE005-look"]


def test_sick_one_pair_of_cards_on_one_node():
    tests = tuple(
        copy(node, first, second, 90 * GB if (node, first, second) == (1, 0, 3) else 230 * GB)
        for node in range(4)
        for first in range(4)
        for second in range(first + 1, 4)
    )
    [finding] = examine(PeerLinkSlow, patient(4, units=cards(4), tests=tests))
    assert "copy from GPU 0 to GPU 3 of node01" in finding.message


def test_sick_a_test_inside_a_node_fails():
    [finding] = examine(PeerLinkSlow, patient(1, units=cards(1), tests=(whole(0, 0, failure="unhandled cuda error"),)))
    assert finding.severity is Severity.ERROR and "unhandled cuda error" in finding.message


def test_healthy_equal_nodes_and_pairs_that_differ_by_design():
    tests = tuple(whole(node, (360 + node) * GB) for node in range(5))
    assert examine(PeerLinkSlow, patient(5, units=cards(5, "Somebody's card"), tests=tests)) == []
    by_design = tuple(
        copy(node, first, second, 230 * GB if second - first == 1 else 20 * GB)
        for node in range(4)
        for first in range(4)
        for second in range(first + 1, 4)
    )
    assert examine(PeerLinkSlow, patient(4, units=cards(4), tests=by_design)) == []


def test_without_several_cards_it_says_so():
    with pytest.raises(Unavailable, match="several cards"):
        examine(PeerLinkSlow, patient(2))
