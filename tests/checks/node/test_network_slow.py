from preflights import GB, every_pair, pair, patient, unit

from gpudoctor.model import Severity
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


def test_sick_a_node_at_half_the_rate_may_have_lost_a_rail():
    found = patient(6, tests=every_pair(6, lambda a, b: 23 * GB if 3 in (a, b) else 46 * GB))
    [finding] = examine(NetworkSlow, found)
    assert finding.message.endswith("That is about half: one of two rails or ports may be down.")
    assert [item.id for item in prescribe(advice("node"), finding, found)] == ["NODE006-leave-out", "NODE006-rail"]


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
