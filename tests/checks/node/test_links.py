"""Paths between nodes and between the cards of one."""

import pytest
from preflights import GB, H100, every_pair, figure, group, pair, patient, unit, ways

from gpudoctor.model import Severity, Unavailable
from gpudoctor.model.signs.preflight import LinkTest, Quantity, Stage
from gpudoctor.testing import examine, prescribe
from gpudoctor_checks.node.group_slow import GroupSlow
from gpudoctor_checks.node.latency_high import LatencyHigh
from gpudoctor_checks.node.network_slow import NetworkSlow
from gpudoctor_checks.node.packets_lost import PacketsLost
from gpudoctor_checks.node.peer_link_slow import PeerLinkSlow
from gpudoctor_rules.advice import advice


def ids(finding, found):
    return [item.id for item in prescribe(advice("node"), finding, found)]


def test_sick_a_node_that_is_slow_with_every_partner():
    tests = every_pair(6, lambda a, b: 12 * GB if 3 in (a, b) else 46 * GB)
    found = patient(6, tests=tests)
    [finding] = examine(NetworkSlow, found)
    assert finding.subject == "node03" and finding.severity is Severity.WARNING
    assert "reached 12 GB/s" in finding.message and "its peers 46 GB/s" in finding.message
    assert ids(finding, found) == ["NODE006-leave-out", "NODE006-node"]


def test_sick_a_node_at_half_the_rate_may_have_lost_a_rail():
    found = patient(6, tests=every_pair(6, lambda a, b: 23 * GB if 3 in (a, b) else 46 * GB))
    [finding] = examine(NetworkSlow, found)
    assert finding.message.endswith("That is about half: one of two rails or ports may be down.")
    assert ids(finding, found) == ["NODE006-leave-out", "NODE006-rail"]


def test_sick_a_path_between_two_good_nodes():
    slow = [pair(1, 4, 12 * GB, at=20 + again) for again in range(3)]
    tests = (*every_pair(6, lambda a, b: 12 * GB if (a, b) == (1, 4) else 46 * GB), *slow)
    found = patient(6, tests=tests)
    [finding] = examine(NetworkSlow, found)
    assert finding.message.startswith("The path between node01 and node04 reached 12 GB/s")
    assert ids(finding, found) == ["NODE006-link"]


def test_sick_a_node_whose_tests_fail():
    good = every_pair(6)
    tests = tuple(
        pair(*item.nodes, at=item.round, failure="timed out after 20 s") if 2 in item.nodes else item for item in good
    )
    [finding] = examine(NetworkSlow, patient(6, tests=tests))
    assert finding.severity is Severity.ERROR and finding.subject == "node02"
    assert "timed out after 20 s" in finding.message


def test_healthy_noise_and_one_late_test():
    calm = every_pair(6, lambda a, b: (46 + 0.4 * ((a * 7 + b * 3) % 5 - 2)) * GB)
    assert examine(NetworkSlow, patient(6, tests=calm)) == []
    late = (*calm, pair(0, 5, 40 * GB, at=30))
    assert examine(NetworkSlow, patient(6, tests=late)) == []


def test_healthy_pairs_of_slower_cards_in_a_mixed_fleet():
    names = ["NVIDIA H100 80GB HBM3"] * 4 + ["NVIDIA A10G"] * 4
    cards = tuple(unit(at, name=name) for at, name in enumerate(names))
    tests = every_pair(8, lambda a, b: 12 * GB if b > 3 else 46 * GB)
    assert examine(NetworkSlow, patient(8, units=cards, tests=tests)) == []


def test_sick_one_node_answers_late_at_full_bandwidth():
    tests = every_pair(6, delay=lambda a, b: 90e-6 if 5 in (a, b) else 12e-6)
    found = patient(6, tests=tests)
    [finding] = examine(LatencyHigh, found)
    assert finding.message == "A small message of node05 takes 90 µs, one of its peers 12 µs."
    assert ids(finding, found) == ["NODE007-leave-out", "NODE007-look"]
    assert examine(NetworkSlow, found) == []


def test_healthy_latency_that_varies():
    tests = every_pair(6, delay=lambda a, b: (12 + (a + 2 * b) % 3) * 1e-6)
    assert examine(LatencyHigh, patient(6, tests=tests)) == []


def counted(count, share, segments=100_000):
    """Every pair of a small cluster; `share(sender, receiver)` of the segments are sent again."""
    return tuple(
        pair(a, b, at=at, more=ways(Quantity.RETRANSMITTED, share(a, b), share(b, a), repetitions=segments))
        for at, (a, b) in enumerate((a, b) for a in range(count) for b in range(a + 1, count))
    )


@pytest.mark.parametrize(
    ("share", "words"),
    [
        (lambda sender, _: 0.03 if sender == 2 else 1e-5, "the median test less than 0.1 %."),  # sends
        (
            lambda sender, to: 0.03 if to == 2 else 0.002 if sender == 2 else 1e-5,
            "the median test less than 0.1 %.",
        ),  # receives
        (lambda sender, to: 0.03 if 2 in (sender, to) else 1e-5, "the median test less than 0.1 %."),  # both
    ],
)
def test_sick_a_node_that_loses_packets_with_every_partner(share, words):
    found = patient(6, tests=counted(6, share))
    [finding] = examine(PacketsLost, found)
    assert finding.subject == "node02" and "TCP sent 3 % of its segments again" in finding.message
    assert finding.message.endswith(words)
    assert ids(finding, found) == ["NODE018-leave-out", "NODE018-look"]


def test_sick_a_path_that_loses_packets_one_way():
    tests = counted(6, lambda sender, to: 0.02 if (sender, to) == (4, 1) else 1e-5)
    again = [
        pair(1, 4, at=20 + turn, more=ways(Quantity.RETRANSMITTED, 1e-5, 0.02, repetitions=100_000))
        for turn in range(3)
    ]
    [finding] = examine(PacketsLost, patient(6, tests=(*tests, *again)))
    assert "between node01 and node04" in finding.message


def test_healthy_few_losses_and_a_network_that_loses_everywhere():
    assert examine(PacketsLost, patient(6, tests=counted(6, lambda *_: 5e-4))) == []
    crowded = counted(6, lambda sender, _: 0.02 if sender == 2 else 0.01)
    assert examine(PacketsLost, patient(6, tests=crowded)) == []


def test_healthy_two_segments_of_few_are_chance():
    few = counted(6, lambda sender, _: 0.02 if sender == 2 else 0.0, segments=100)
    assert examine(PacketsLost, patient(6, tests=few)) == []


def test_what_rdma_carries_is_not_counted():
    with pytest.raises(Unavailable, match="no TCP connection"):
        examine(PacketsLost, patient(6, tests=tuple(pair(a, b) for a in range(6) for b in range(a + 1, 6))))


def test_sick_one_node_is_slow_in_groups_only():
    eight = tuple(range(8))
    groups = (
        group(eight, 8 * GB), group(eight, 8 * GB, 1), group((0, 1, 2, 3), 44 * GB, 2), group((4, 5, 6, 7), 8 * GB, 2),
        group((0, 1, 4, 5), 44 * GB, 3), group((2, 3, 6, 7), 8 * GB, 3), group((0, 1, 2, 6), 8 * GB, 4),
        group((3, 4, 5, 7), 44 * GB, 4),
    )  # fmt: skip
    found = patient(8, tests=(*every_pair(8), *groups))
    [finding] = examine(GroupSlow, found)
    assert finding.subject == "node06" and "its pairs are good" in finding.message
    assert ids(finding, found) == ["NODE013-leave-out", "NODE013-fabric"]
    assert examine(NetworkSlow, found) == []


def test_healthy_a_group_a_little_below_its_pairs():
    found = patient(8, tests=(*every_pair(8), group(range(8), 42 * GB)))
    assert examine(GroupSlow, found) == []


def whole(node, speed, algorithm="ring", failure=""):
    figures = () if failure else (figure(Quantity.BUS_BANDWIDTH, speed, payload=1 << 30, algorithm=algorithm),)
    places = tuple((node, local) for local in range(8))
    return LinkTest(stage=Stage.NODE, round=0, nodes=(node,), units=places, figures=figures, failure=failure)


def copy(node, first, second, speed):
    return LinkTest(
        stage=Stage.NODE, round=1, nodes=(node,), units=((node, first), (node, second)),
        figures=(figure(Quantity.PEER_BANDWIDTH, speed, payload=1 << 28),),
    )  # fmt: skip


def eight_each(nodes, name=H100):
    return tuple(unit(node, local, name=name) for node in range(nodes) for local in range(8))


def test_sick_one_node_of_five_is_slow_inside():
    tests = tuple(whole(node, 200 * GB if node == 2 else 360 * GB) for node in range(5))
    found = patient(5, units=eight_each(5, "Somebody's card"), tests=tests)
    [finding] = examine(PeerLinkSlow, found)
    assert finding.message.startswith("The all-reduce (ring) inside node02 reaches 200 GB/s")
    assert ids(finding, found) == ["NODE005-leave-out", "NODE005-look"]


def test_sick_one_pair_of_cards_on_one_node():
    tests = tuple(
        copy(node, first, second, 90 * GB if (node, first, second) == (1, 0, 3) else 230 * GB)
        for node in range(4)
        for first in range(4)
        for second in range(first + 1, 4)
    )
    [finding] = examine(PeerLinkSlow, patient(4, units=eight_each(4), tests=tests))
    assert "copy from GPU 0 to GPU 3 of node01" in finding.message


def test_sick_a_test_inside_a_node_fails():
    [finding] = examine(
        PeerLinkSlow, patient(1, units=eight_each(1), tests=(whole(0, 0, failure="unhandled cuda error"),))
    )
    assert finding.severity is Severity.ERROR and "unhandled cuda error" in finding.message


def test_healthy_equal_nodes_and_pairs_that_differ_by_design():
    tests = tuple(whole(node, (360 + node) * GB) for node in range(5))
    assert examine(PeerLinkSlow, patient(5, units=eight_each(5, "Somebody's card"), tests=tests)) == []
    by_design = tuple(
        copy(node, first, second, 230 * GB if second - first == 1 else 20 * GB)
        for node in range(4)
        for first in range(4)
        for second in range(first + 1, 4)
    )
    assert examine(PeerLinkSlow, patient(4, units=eight_each(4), tests=by_design)) == []


def test_without_several_cards_it_says_so():
    with pytest.raises(Unavailable, match="several cards"):
        examine(PeerLinkSlow, patient(2))
