from itertools import combinations

import pytest
from preflights import GB, every_pair, pair, patient, unit, ways

from gpudoctor.model import Severity
from gpudoctor.model.signs.preflight import Quantity
from gpudoctor.testing import examine, prescribe
from gpudoctor_checks.node.network_slow import NetworkSlow
from gpudoctor_rules.advice import advice


def test_sick_a_node_that_is_slow_with_every_partner():
    tests = every_pair(6, lambda a, b: 12 * GB if 3 in (a, b) else 46 * GB)
    found = patient(6, tests=tests)
    [finding] = examine(NetworkSlow, found)
    assert finding.subject == "node03" and finding.severity is Severity.WARNING
    assert "reached 12 GB/s" in finding.message and "its peers 46 GB/s" in finding.message
    ids = [item.id for item in prescribe(advice("node"), finding, found)]
    assert ids == ["NODE006-leave-out", "NODE006-node"]


def one_way_slow(count, bad, sends, share=0.4):
    """Every pair of a small cluster, with what each direction reaches; one node sends or receives slowly."""
    tests = []
    for at, (a, b) in enumerate(combinations(range(count), 2)):
        slow = bad in (a, b)
        forward = share if slow and (bad == a) is sends else 1.0
        backward = share if slow and (bad == b) is sends else 1.0
        more = ways(Quantity.ONE_WAY_BANDWIDTH, forward * 48 * GB, backward * 48 * GB)
        tests.append(pair(a, b, (share if slow else 1.0) * 46 * GB, at=at, more=more))
    return tuple(tests)


@pytest.mark.parametrize(
    ("sends", "words"),
    [
        (True, "Only sending is slow: 19.2 GB/s out, 48 GB/s in."),
        (False, "Only receiving is slow: 19.2 GB/s in, 48 GB/s out."),
    ],
)
def test_sick_a_node_that_is_slow_in_one_direction(sends, words):
    [finding] = examine(NetworkSlow, patient(6, tests=one_way_slow(6, 3, sends)))
    assert finding.subject == "node03" and finding.message.endswith(words)


def test_sick_a_node_at_half_the_rate_may_have_lost_a_rail():
    found = patient(6, tests=every_pair(6, lambda a, b: 23 * GB if 3 in (a, b) else 46 * GB))
    [finding] = examine(NetworkSlow, found)
    assert finding.message.endswith("That is about half: one of two rails or ports may be down.")
    assert [item.id for item in prescribe(advice("node"), finding, found)] == ["NODE006-leave-out", "NODE006-rail"]


def test_sick_a_path_that_is_slow_in_one_direction():
    slow = ways(Quantity.ONE_WAY_BANDWIDTH, 12 * GB, 48 * GB)
    good = ways(Quantity.ONE_WAY_BANDWIDTH, 48 * GB, 48 * GB)
    tests = [
        pair(a, b, 12 * GB if (a, b) == (1, 4) else 46 * GB, more=slow if (a, b) == (1, 4) else good)
        for a in range(6)
        for b in range(a + 1, 6)
    ]
    again = [pair(1, 4, 12 * GB, at=20 + turn, more=slow) for turn in range(3)]
    [finding] = examine(NetworkSlow, patient(6, tests=(*tests, *again)))
    assert finding.message.endswith("Only the way from node01 to node04 is slow: 12 GB/s, back 48 GB/s.")


def test_sick_a_path_between_two_good_nodes():
    slow = [pair(1, 4, 12 * GB, at=20 + again) for again in range(3)]
    tests = (*every_pair(6, lambda a, b: 12 * GB if (a, b) == (1, 4) else 46 * GB), *slow)
    found = patient(6, tests=tests)
    [finding] = examine(NetworkSlow, found)
    assert finding.message.startswith("The path between node01 and node04 reached 12 GB/s")
    assert [item.id for item in prescribe(advice("node"), finding, found)] == ["NODE006-link"]


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
