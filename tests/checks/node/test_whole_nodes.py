"""What is wrong with a node, a rank or a folder."""

from dataclasses import replace

import pytest
from preflights import GB, figure, loss, node, patient, preflight, unit, with_facts

from gpudoctor.model import Confidence, Severity, Unavailable
from gpudoctor.model.signs.preflight import LossKind, MachineFinding, Quantity, Stage, StorageTest
from gpudoctor.testing import examine, make_patient, prescribe
from gpudoctor_checks.node.clocks_apart import ClocksApart
from gpudoctor_checks.node.machine_unfit import MachineUnfit
from gpudoctor_checks.node.node_missing import NodeMissing
from gpudoctor_checks.node.nodes_disagree import NodesDisagree
from gpudoctor_checks.node.rank_lost import RankLost
from gpudoctor_checks.node.slower_than_before import SlowerThanBefore
from gpudoctor_checks.node.storage_unfit import StorageUnfit
from gpudoctor_checks.node.throttles_under_load import ThrottlesUnderLoad
from gpudoctor_checks.node.wrong_values import WrongValues
from gpudoctor_rules.advice import advice


def ids(finding, found):
    return [item.id for item in prescribe(advice("node"), finding, found)]


def clocks(*offsets, error=0.001):
    count = len(offsets)
    known = tuple(node(index, clock_offset=value, clock_error=error) for index, value in enumerate(offsets))
    return patient(count, nodes=known)


def test_sick_one_clock_is_thirty_seconds_ahead():
    found = clocks(0.0, 0.002, 30.0, -0.001)
    [finding] = examine(ClocksApart, found)
    assert finding.message == "The clock of node02 is 30 s ahead of the median of all nodes."
    assert ids(finding, found) == ["NODE011-sync"]


def test_sick_two_nodes_name_the_difference():
    [finding] = examine(ClocksApart, clocks(0.0, -5.0))
    assert finding.message == "The clock of node01 is 5 s behind node00."


def test_healthy_milliseconds_and_a_slow_connection():
    assert examine(ClocksApart, clocks(0.0, 0.02, -0.4, 0.1)) == []
    assert examine(ClocksApart, clocks(0.0, 0.0, 1.5, error=0.8)) == []


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
    assert ids(finding, found) == ["NODE016-there"]


def test_healthy_machines():
    assert examine(MachineUnfit, patient()) == []


def test_machines_that_nobody_examined():
    unseen = tuple(node(index, unexamined=("the driver did not answer",)) for index in range(2))
    with pytest.raises(Unavailable, match="no machine was examined"):
        examine(MachineUnfit, patient(2, nodes=unseen))


def test_sick_two_ranks_never_came():
    lost = [loss(rank, LossKind.NEVER_CAME, Stage.ARRIVE, "nothing came within 20 s") for rank in (4, 5)]
    found = patient(4, world=6, losses=tuple(lost))
    [finding] = examine(NodeMissing, found)
    assert finding.message == "Ranks 4, 5 of 6 never came: nothing came within 20 s. 4 ranks arrived."
    assert ids(finding, found) == ["NODE008-absent"]


def test_sick_a_rank_with_another_world_size():
    found = patient(4, losses=(loss(3, LossKind.REFUSED, Stage.ARRIVE, "its world size is 8, that of rank 0 is 4"),))
    [finding] = examine(NodeMissing, found)
    assert finding.message == "Rank 3 on node03 was refused: its world size is 8, that of rank 0 is 4."
    assert ids(finding, found) == ["NODE008-refused"]


def test_healthy_everybody_came_and_one_died_later():
    assert examine(NodeMissing, patient(4)) == []
    assert examine(NodeMissing, patient(4, losses=(loss(1),))) == []


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
    assert ids(finding, found) == [remedy]


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


@pytest.mark.parametrize(
    ("kind", "words", "message"),
    [
        (
            LossKind.DIED,
            "killed by signal 9",
            "Rank 2 on node02 died in the test of pairs of nodes: killed by signal 9.",
        ),
        (
            LossKind.SILENT,
            "no answer for 15 s",
            "Rank 2 on node02 stopped answering in the test of pairs of nodes: no answer for 15 s.",
        ),
        (LossKind.STUCK, "", "Rank 2 on node02 did not finish in the test of pairs of nodes."),
    ],
)
def test_sick_a_rank_is_lost(kind, words, message):
    found = patient(losses=(loss(2, kind, Stage.PAIRS, words),))
    [finding] = examine(RankLost, found)
    assert finding.message == message
    assert ids(finding, found) == ["NODE009-leave-out", "NODE009-look"]


def test_the_stack_is_named():
    found = patient(losses=(loss(2, LossKind.STUCK, stack=("worker.py:10 main", "all_reduce.py:31 wait")),))
    [finding] = examine(RankLost, found)
    assert finding.message.endswith("It stood at all_reduce.py:31 wait.")


def test_healthy_nobody_is_lost():
    assert examine(RankLost, patient()) == []
    assert examine(RankLost, patient(losses=(loss(3, LossKind.NEVER_CAME, Stage.ARRIVE),))) == []


def earlier(*speeds, uuids=True, device="cuda", name="NVIDIA H100 80GB HBM3"):
    units = tuple(
        unit(
            at,
            device=device,
            name=name,
            uuid=f"GPU-{at}" if uuids else "",
            figures=(figure(Quantity.MATMUL, speed, dtype="bf16"),),
        )
        for at, speed in enumerate(speeds)
    )
    return preflight(len(speeds), units=units)


def compared(now, before):
    return make_patient(preflight=replace(now, before=before))


def test_sick_one_card_lost_a_fifth():
    found = compared(earlier(640e12, 510e12, 642e12), earlier(640e12, 641e12, 640e12))
    [finding] = examine(SlowerThanBefore, found)
    assert finding.message == (
        "GPU 0 of node01 lost 20 % of bf16 matmul since the baseline, at most 641 TFLOP/s to 510 TFLOP/s "
        "(GPU 0 of node01)."
    )
    assert ids(finding, found) == ["NODE017-leave-out", "NODE017-compare"]


def test_sick_all_cards_lost_a_tenth_and_no_peer_shows_it():
    found = compared(earlier(576e12, 576e12, 576e12), earlier(640e12, 640e12, 640e12))
    [finding] = examine(SlowerThanBefore, found)
    assert finding.message.startswith("All 3 units lost 10 % in the middle of bf16 matmul")
    assert ids(finding, found) == ["NODE017-compare"]


def test_healthy_the_same_again_and_busy_processors():
    assert examine(SlowerThanBefore, compared(earlier(640e12, 630e12), earlier(645e12, 640e12))) == []
    cpus = [earlier(speed, uuids=False, device="cpu", name="AMD EPYC") for speed in (2e12, 2.5e12)]
    assert examine(SlowerThanBefore, compared(*cpus)) == []


def test_a_replaced_card_is_not_compared():
    other = replace(earlier(640e12), units=(unit(0, uuid="GPU-9", figures=()),))
    with pytest.raises(Unavailable, match="none of these units"):
        examine(SlowerThanBefore, compared(other, earlier(640e12)))


def test_without_a_baseline_it_says_how():
    with pytest.raises(Unavailable, match="--baseline"):
        examine(SlowerThanBefore, make_patient(preflight=earlier(640e12)))


def seen(on, write=2 * GB, **changes):
    given = {"visible": True, "writable": True, "same": True, "figures": (figure(Quantity.WRITE_BANDWIDTH, write),)}
    return StorageTest(node=on, folder="/scratch", **(given | changes))


@pytest.mark.parametrize(
    ("changes", "message", "remedy"),
    [
        ({"visible": False, "writable": False, "same": None, "figures": ()}, "/scratch does not exist on node02.", "NODE012-visible"),
        ({"writable": False, "failure": "Permission denied", "figures": ()}, "/scratch cannot be written on node02 (Permission denied).", "NODE012-writable"),
        ({"writable": False, "failure": "No space left on device", "figures": ()}, "/scratch cannot be written on node02 (No space left on device).", "NODE012-space"),
        ({"same": False}, "/scratch holds other files than on the first node on node02.", "NODE012-visible"),
    ],
)  # fmt: skip
def test_sick_access(changes, message, remedy):
    found = patient(4, storage=(seen(0), seen(1), seen(2, **changes), seen(3)))
    [finding] = examine(StorageUnfit, found)
    assert finding.severity is Severity.ERROR and finding.message == message
    assert remedy in ids(finding, found)


def test_sick_one_node_is_slow():
    found = patient(6, storage=tuple(seen(at, 0.2 * GB if at == 4 else 2 * GB) for at in range(6)))
    [finding] = examine(StorageUnfit, found)
    assert finding.severity is Severity.WARNING
    assert finding.message == "node04 writes /scratch at 200 MB/s, the median of 6 nodes is 2 GB/s: 90 % slower."


def test_sick_little_space_is_left():
    found = patient(2, nodes=(node(0, free_bytes={"/scratch": 1 << 40}), node(1, free_bytes={"/scratch": 5 << 20})))
    [finding] = examine(StorageUnfit, found)
    assert finding.message == "/scratch has 5 MiB free on node01."
    assert ids(finding, found) == ["NODE012-space"]


def test_healthy_everybody_reads_and_writes():
    assert examine(StorageUnfit, patient(4, storage=tuple(seen(at, (2 + 0.1 * at) * GB) for at in range(4)))) == []


def test_without_a_folder_it_says_how():
    with pytest.raises(Unavailable, match="--storage"):
        examine(StorageUnfit, patient(2))


def burnt(last):
    figures = (
        figure(Quantity.MATMUL, 650e12, dtype="bf16", when="first"),
        figure(Quantity.MATMUL, last, dtype="bf16", when="last"),
        figure(Quantity.TEMPERATURE, 88.0, when="last"),
    )
    return patient(2, units=(unit(0, figures=figures), unit(1)))


def test_sick_a_card_loses_a_third():
    found = burnt(430e12)
    [finding] = examine(ThrottlesUnderLoad, found)
    assert finding.message.startswith("GPU 0 of node00 falls from 650 TFLOP/s to 430 TFLOP/s in 2 s of load, at 88")
    assert ids(finding, found) == ["NODE014-leave-out", "NODE014-cool"]


def test_healthy_a_card_warms_up():
    assert examine(ThrottlesUnderLoad, burnt(620e12)) == []


def test_without_a_burn_it_says_how():
    with pytest.raises(Unavailable, match="--burn"):
        examine(ThrottlesUnderLoad, patient(2, units=(unit(0),)))


RIGHT, WRONG = "a1b2", "a1b3"


def products(*digests, names=None):
    return tuple(
        unit(index, digests={"bf16 4096": tuple(item)}, **({"name": names[index]} if names else {}))
        for index, item in enumerate(digests)
    )


def test_sick_one_card_of_four_has_other_bits():
    found = patient(units=products([RIGHT] * 3, [RIGHT] * 3, [WRONG] * 3, [RIGHT] * 3))
    [finding] = examine(WrongValues, found)
    assert finding.severity is Severity.ERROR and finding.confidence is Confidence.CONFIRMED
    assert (
        finding.message == "GPU 0 of node02 gives other bits than 3 of 4 equal units for the same product (bf16 4096)."
    )
    remedies = prescribe(advice("node"), finding, found)
    assert [item.id for item in remedies] == ["NODE002-leave-out", "NODE002-replace"]
    assert remedies[0].title == "--exclude=node02"


def test_sick_a_card_that_disagrees_with_itself():
    found = patient(units=products([RIGHT] * 3, [RIGHT, WRONG, RIGHT], [RIGHT] * 3))
    [finding] = examine(WrongValues, found)
    assert finding.message == "GPU 0 of node01 gave 2 different results for one product (bf16 4096) in 3 repetitions."


def test_two_cards_that_differ_name_nobody():
    found = patient(2, units=products([RIGHT], [WRONG]))
    [finding] = examine(WrongValues, found)
    assert finding.confidence is Confidence.PROBABLE and "No majority" in finding.message
    assert ids(finding, found) == ["NODE002-more"]


@pytest.mark.parametrize(
    "found",
    [
        patient(units=products([RIGHT] * 3, [RIGHT] * 3)),
        patient(units=products([RIGHT], [WRONG], names=["NVIDIA H100 80GB HBM3", "NVIDIA A100-SXM4-80GB"])),
        patient(units=(unit(0), unit(1))),
    ],
)
def test_healthy_equal_bits_and_other_cards(found):
    assert examine(WrongValues, found) == []
