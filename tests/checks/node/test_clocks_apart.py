from preflights import node, patient

from gpudoctor.testing import examine, prescribe
from gpudoctor_checks.node.clocks_apart import ClocksApart
from gpudoctor_rules.advice import advice


def clocks(*offsets, error=0.001):
    count = len(offsets)
    known = tuple(node(index, clock_offset=value, clock_error=error) for index, value in enumerate(offsets))
    return patient(count, nodes=known)


def test_sick_one_clock_is_thirty_seconds_ahead():
    found = clocks(0.0, 0.002, 30.0, -0.001)
    [finding] = examine(ClocksApart, found)
    assert finding.message == "The clock of node02 is 30 s ahead of the median of all nodes."
    assert [item.id for item in prescribe(advice("node"), finding, found)] == ["NODE011-sync"]


def test_sick_two_nodes_name_the_difference():
    [finding] = examine(ClocksApart, clocks(0.0, -5.0))
    assert finding.message == "The clock of node01 is 5 s behind node00."


def test_healthy_milliseconds_and_a_slow_connection():
    assert examine(ClocksApart, clocks(0.0, 0.02, -0.4, 0.1)) == []
    assert examine(ClocksApart, clocks(0.0, 0.0, 1.5, error=0.8)) == []
