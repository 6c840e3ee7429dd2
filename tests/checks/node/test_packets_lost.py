import pytest
from preflights import pair, patient, ways

from gpudoctor.model import Unavailable
from gpudoctor.model.signs.preflight import Quantity
from gpudoctor.testing import examine, prescribe
from gpudoctor_checks.node.packets_lost import PacketsLost
from gpudoctor_rules.advice import advice


def counted(count, share, segments=100_000):
    """Every pair of a small cluster; `share(sender, receiver)` of the segments are sent again."""
    return tuple(
        pair(a, b, at=at, more=ways(Quantity.RETRANSMITTED, share(a, b), share(b, a), repetitions=segments))
        for at, (a, b) in enumerate((a, b) for a in range(count) for b in range(a + 1, count))
    )


@pytest.mark.parametrize(
    ("share", "words"),
    [
        (lambda sender, _: 0.03 if sender == 2 else 1e-5, "the median test less than 0.1 %."),
        (lambda sender, to: 0.03 if to == 2 else 0.002 if sender == 2 else 1e-5, "the median test less than 0.1 %."),
        (lambda sender, to: 0.03 if 2 in (sender, to) else 1e-5, "the median test less than 0.1 %."),
    ],
    ids=["sends", "receives", "both"],
)
def test_sick_a_node_that_loses_packets_with_every_partner(share, words):
    found = patient(6, tests=counted(6, share))
    [finding] = examine(PacketsLost, found)
    assert finding.subject == "node02" and "TCP sent 3 % of its segments again" in finding.message
    assert finding.message.endswith(words)
    assert [item.id for item in prescribe(advice("node"), finding, found)] == ["NODE018-leave-out", "NODE018-look"]


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
