import pytest
from preflights import patient, preflight, with_facts

from gpudoctor.model import Severity, Unavailable
from gpudoctor.testing import examine, make_patient, prescribe
from gpudoctor_checks.node.nodes_disagree import NodesDisagree
from gpudoctor_rules.advice import advice


@pytest.mark.parametrize(
    ("fact", "value", "severity", "message", "remedy"),
    [
        ("torch", "2.8.0", Severity.ERROR, "Torch is 2.8.0 on node02 and 2.9.1 on 3 nodes.", "NODE010-version"),
        ("CPU quota", "0.5", Severity.WARNING, "CPU quota is 0.5 on node02 and none on 3 nodes.", "NODE010-cpus"),
        ("driver", "570", Severity.WARNING, "Driver is 570 on node02 and 580 on 3 nodes.", "NODE010-version"),
    ],
)
def test_sick_one_node_differs(fact, value, severity, message, remedy):
    found = make_patient(preflight=with_facts(preflight(), 2, **{fact: value}))
    [finding] = examine(NodesDisagree, found)
    assert finding.severity is severity and finding.message == message
    assert [item.id for item in prescribe(advice("node"), finding, found)] == [remedy]


def test_sick_a_variable_on_one_node_only():
    some = preflight()
    for index in range(4):
        some = with_facts(some, index, **{"env NCCL_IB_HCA": "mlx5_0" if index == 1 else ""})
    found = make_patient(preflight=some)
    [finding] = examine(NodesDisagree, found)
    assert finding.message == "The variable NCCL_IB_HCA is mlx5_0 on node01 and not set on 3 nodes."
    assert prescribe(advice("node"), finding, found)[0].title == "set NCCL_IB_HCA to one value on all nodes"


def test_half_and_half_names_nobody():
    some = with_facts(with_facts(preflight(), 0, driver="570"), 1, driver="570")
    [finding] = examine(NodesDisagree, make_patient(preflight=some))
    assert finding.message == "Driver has 2 values on 4 nodes; none is the usual one."


def test_healthy_equal_nodes():
    assert examine(NodesDisagree, patient()) == []


def test_a_fact_that_one_node_alone_could_read_is_not_compared():
    assert examine(NodesDisagree, make_patient(preflight=with_facts(preflight(), 3, nccl="2.27"))) == []


def test_one_node_has_nobody_to_differ_from():
    with pytest.raises(Unavailable, match="one node"):
        examine(NodesDisagree, patient(1))
