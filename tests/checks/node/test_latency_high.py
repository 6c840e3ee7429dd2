from preflights import every_pair, patient

from gpudoctor.testing import examine, prescribe
from gpudoctor_checks.node.latency_high import LatencyHigh
from gpudoctor_checks.node.network_slow import NetworkSlow
from gpudoctor_rules.advice import advice


def test_sick_one_node_answers_late_at_full_bandwidth():
    tests = every_pair(6, delay=lambda a, b: 90e-6 if 5 in (a, b) else 12e-6)
    found = patient(6, tests=tests)
    [finding] = examine(LatencyHigh, found)
    assert finding.message == "A small message of node05 takes 90 µs, one of its peers 12 µs."
    assert [item.id for item in prescribe(advice("node"), finding, found)] == ["NODE007-leave-out", "NODE007-look"]
    assert examine(NetworkSlow, found) == []


def test_healthy_latency_that_varies():
    tests = every_pair(6, delay=lambda a, b: (12 + (a + 2 * b) % 3) * 1e-6)
    assert examine(LatencyHigh, patient(6, tests=tests)) == []
