import pytest
from preflights import node, patient

from gpudoctor.model import Severity, Unavailable
from gpudoctor.model.signs.preflight import MachineFinding
from gpudoctor.testing import examine, prescribe
from gpudoctor_checks.node.machine_unfit import MachineUnfit
from gpudoctor_rules.advice import advice

XID = MachineFinding(
    code="GPU004", name="xid", severity="error", message="GPU 3 reported Xid 79.", fix="Reboot the node."
)
SHM = MachineFinding(code="ENV006", name="shm-too-small", severity="warning", message="/dev/shm has 64 MiB.", fix="")


def test_sick_one_node_has_an_xid():
    found = patient(3, nodes=(node(0), node(1, findings=(XID,)), node(2)))
    [finding] = examine(MachineUnfit, found)
    assert finding.severity is Severity.ERROR
    assert finding.message == "On node01, GPU004 xid: GPU 3 reported Xid 79."
    remedies = prescribe(advice("node"), finding, found)
    assert {item.id for item in remedies} == {"NODE016-there", "NODE016-leave-out"}
    assert "Reboot the node." in remedies[0].steps


def test_equal_findings_of_all_nodes_are_one():
    found = patient(3, nodes=tuple(node(index, findings=(SHM,)) for index in range(3)))
    [finding] = examine(MachineUnfit, found)
    assert finding.message == "On every node, ENV006 shm-too-small: /dev/shm has 64 MiB."
    assert [item.id for item in prescribe(advice("node"), finding, found)] == ["NODE016-there"]


def test_healthy_machines():
    assert examine(MachineUnfit, patient()) == []


def test_machines_that_nobody_examined():
    unseen = tuple(node(index, unexamined=("the driver did not answer",)) for index in range(2))
    with pytest.raises(Unavailable, match="no machine was examined"):
        examine(MachineUnfit, patient(2, nodes=unseen))
