from preflights import GB, every_pair, group, patient

from gpudoctor.testing import examine, prescribe
from gpudoctor_checks.node.group_slow import GroupSlow
from gpudoctor_checks.node.network_slow import NetworkSlow
from gpudoctor_rules.advice import advice


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
    assert [item.id for item in prescribe(advice("node"), finding, found)] == ["NODE013-leave-out", "NODE013-fabric"]
    assert examine(NetworkSlow, found) == []


def test_healthy_a_group_a_little_below_its_pairs():
    found = patient(8, tests=(*every_pair(8), group(range(8), 42 * GB)))
    assert examine(GroupSlow, found) == []
