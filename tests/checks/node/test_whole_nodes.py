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
from gpudoctor_rules.node import leave_out

PAIRS, ARRIVE = Stage.PAIRS, Stage.ARRIVE
XID = MachineFinding(
    code="GPU004", name="xid", severity="error", message="GPU 3 reported Xid 79.", fix="Reboot the node."
)
SHM = MachineFinding(code="ENV006", name="shm-too-small", severity="warning", message="/dev/shm has 64 MiB.", fix="")
H100, A100 = "NVIDIA H100 80GB HBM3", "NVIDIA A100-SXM4-80GB"
RIGHT, WRONG = "a1b2", "a1b3"


def clocks(*offsets, error=0.001):
    known = tuple(node(index, clock_offset=value, clock_error=error) for index, value in enumerate(offsets))
    return patient(len(offsets), nodes=known)


def machines(*findings, **more):
    return patient(len(findings), nodes=tuple(node(at, findings=item, **more) for at, item in enumerate(findings)))


def facts(*of_nodes):
    found = preflight()
    for index, changes in enumerate(of_nodes):
        found = with_facts(found, index, **changes)
    return make_patient(preflight=found)


def lost(kind, stage, words="", rank=2, **more):
    return patient(losses=(loss(rank, kind, stage, words, **more),))


def cards(*speeds, uuids=True, device="cuda", name=H100):
    def one(at, speed):
        figures = (figure(Quantity.MATMUL, speed, dtype="bf16"),)
        return unit(at, device=device, name=name, uuid=f"GPU-{at}" if uuids else "", figures=figures)

    return preflight(len(speeds), units=tuple(one(at, speed) for at, speed in enumerate(speeds)))


def compared(now, before):
    return make_patient(preflight=replace(now, before=before))


def processors(speed):
    return cards(speed, uuids=False, device="cpu", name="AMD EPYC")


def seen(on, write=2 * GB, **changes):
    given = {"visible": True, "writable": True, "same": True, "figures": (figure(Quantity.WRITE_BANDWIDTH, write),)}
    return StorageTest(node=on, folder="/scratch", **(given | changes))


def folder(**changes):
    return patient(4, storage=(seen(0), seen(1), seen(2, **changes), seen(3)))


def unwritable(words):
    return folder(writable=False, failure=words, figures=())


def burnt(last):
    figures = (
        figure(Quantity.MATMUL, 650e12, dtype="bf16", when="first"),
        figure(Quantity.MATMUL, last, dtype="bf16", when="last"),
    )
    return patient(2, units=(unit(0, figures=figures), unit(1)))


def products(*digests, names=(H100,) * 9):
    return tuple(unit(at, digests={"bf16 4096": tuple(item)}, name=names[at]) for at, item in enumerate(digests))


HCA = [{"env NCCL_IB_HCA": value} for value in ("", "mlx5_0", "", "")]
SPACE = (node(0, free_bytes={"/scratch": 1 << 40}), node(1, free_bytes={"/scratch": 5 << 20}))
ABSENT = tuple(loss(rank, LossKind.NEVER_CAME, ARRIVE, "nothing came within 20 s") for rank in (4, 5))
OF_ANOTHER_SIZE = loss(3, LossKind.REFUSED, ARRIVE, "its world size is 8, that of rank 0 is 4")
STACK = ("worker.py:10 main", "all_reduce.py:31 wait")
E, W = Severity.ERROR, Severity.WARNING


@pytest.mark.parametrize(
    ("check", "found", "severity", "message", "remedies"),
    [
        (ClocksApart, clocks(0.0, 0.002, 30.0, -0.001), W, "The clock of node02 is 30 s ahead of the median of all nodes.", "sync"),
        (ClocksApart, clocks(0.0, -5.0), W, "The clock of node01 is 5 s behind node00.", "sync"),
        (MachineUnfit, machines((), (XID,), ()), E, "On node01, GPU004 xid: GPU 3 reported Xid 79.", "leave-out there"),
        (MachineUnfit, machines((SHM,), (SHM,), (SHM,)), W, "On every node, ENV006 shm-too-small: /dev/shm has 64 MiB.", "there"),
        (NodeMissing, patient(4, world=6, losses=ABSENT), E, "Ranks 4, 5 of 6 never came: nothing came within 20 s. 4 ranks arrived.", "absent"),
        (NodeMissing, patient(4, losses=(OF_ANOTHER_SIZE,)), E, "Rank 3 on node03 was refused: its world size is 8, that of rank 0 is 4.", "refused"),
        (NodesDisagree, facts({}, {}, {"torch": "2.8.0"}), E, "Torch is 2.8.0 on node02 and 2.9.1 on 3 nodes.", "version"),
        (NodesDisagree, facts({}, {}, {"CPU quota": "0.5"}), W, "CPU quota is 0.5 on node02 and none on 3 nodes.", "cpus"),
        (NodesDisagree, facts({}, {}, {"driver": "570"}), W, "Driver is 570 on node02 and 580 on 3 nodes.", "version"),
        (NodesDisagree, facts({"driver": "570"}, {"driver": "570"}), W, "Driver has 2 values on 4 nodes; none is the usual one.", "version"),
        (NodesDisagree, facts(*HCA), W, "The variable NCCL_IB_HCA is mlx5_0 on node01 and not set on 3 nodes.", "variable"),
        (RankLost, lost(LossKind.DIED, PAIRS, "killed by signal 9"), E, "Rank 2 on node02 died in the test of pairs of nodes: killed by signal 9.", "leave-out look"),
        (RankLost, lost(LossKind.SILENT, PAIRS, "no answer for 15 s"), E, "Rank 2 on node02 stopped answering in the test of pairs of nodes: no answer for 15 s.", "leave-out look"),
        (RankLost, lost(LossKind.STUCK, PAIRS), E, "Rank 2 on node02 did not finish in the test of pairs of nodes.", "leave-out look"),
        (RankLost, lost(LossKind.STUCK, PAIRS, stack=STACK), E, "It stood at all_reduce.py:31 wait.", "leave-out look"),
        (SlowerThanBefore, compared(cards(640e12, 510e12, 642e12), cards(640e12, 641e12, 640e12)), W, "GPU 0 of node01 lost 20 % of bf16 matmul since the baseline, from 641 TFLOP/s to 510 TFLOP/s.", "leave-out compare"),
        (SlowerThanBefore, compared(cards(*[576e12] * 3), cards(*[640e12] * 3)), W, "to 576 TFLOP/s. 3 units lost speed.", "compare"),
        (StorageUnfit, folder(visible=False, writable=False, same=None, figures=()), E, "/scratch does not exist on node02.", "visible"),
        (StorageUnfit, unwritable("Permission denied"), E, "/scratch cannot be written on node02 (Permission denied).", "writable"),
        (StorageUnfit, unwritable("No space left on device"), E, "/scratch cannot be written on node02 (No space left on device).", "space"),
        (StorageUnfit, folder(same=False), E, "/scratch holds other files than on the first node on node02.", "visible"),
        (StorageUnfit, patient(6, storage=tuple(seen(at, 0.2 * GB if at == 4 else 2 * GB) for at in range(6))), W, "node04 writes /scratch at 200 MB/s, the median of 6 nodes is 2 GB/s: 90 % slower.", "slow"),
        (StorageUnfit, patient(2, nodes=SPACE), W, "/scratch has 5 MiB free on node01.", "space"),
        (ThrottlesUnderLoad, burnt(430e12), W, "GPU 0 of node00 falls from 650 TFLOP/s to 430 TFLOP/s: 34 % slower.", "leave-out cool"),
        (WrongValues, patient(units=products([RIGHT] * 3, [RIGHT] * 3, [WRONG] * 3, [RIGHT] * 3)), E, "GPU 0 of node02 gives other bits than 3 of 4 equal units for the same product (bf16 4096).", "leave-out replace"),
        (WrongValues, patient(units=products([RIGHT] * 3, [RIGHT, WRONG, RIGHT], [RIGHT] * 3)), E, "GPU 0 of node01 gave 2 different results for one product (bf16 4096) in 3 repetitions.", "leave-out replace"),
        (WrongValues, patient(2, units=products([RIGHT], [WRONG])), E, "No majority", "more"),
    ],
)  # fmt: skip
def test_sick(check, found, severity, message, remedies):
    [finding] = examine(check, found)
    assert finding.severity is severity and message in finding.message
    ids = [item.id for item in prescribe((leave_out, *advice("node")), finding, found)]
    assert ids == [f"{finding.code}-{word}" for word in remedies.split()]
    if check is WrongValues:
        assert finding.confidence is (Confidence.PROBABLE if remedies == "more" else Confidence.CONFIRMED)


@pytest.mark.parametrize(
    ("check", "found"),
    [
        (ClocksApart, clocks(0.0, 0.02, -0.4, 0.1)),
        (ClocksApart, clocks(0.0, 0.0, 1.5, error=0.8)),  # a slow connection
        (MachineUnfit, patient()),
        (NodeMissing, patient(4)),
        (NodeMissing, patient(4, losses=(loss(1),))),  # it died later
        (NodesDisagree, patient()),
        (NodesDisagree, facts({}, {}, {}, {"nccl": "2.27"})),  # one node alone could read it
        (RankLost, patient()),
        (RankLost, lost(LossKind.NEVER_CAME, ARRIVE, rank=3)),
        (SlowerThanBefore, compared(cards(640e12, 630e12), cards(645e12, 640e12))),
        (SlowerThanBefore, compared(processors(2e12), processors(2.5e12))),  # processors are busy at times
        (StorageUnfit, patient(4, storage=tuple(seen(at, (2 + 0.1 * at) * GB) for at in range(4)))),
        (ThrottlesUnderLoad, burnt(620e12)),
        (WrongValues, patient(units=products([RIGHT] * 3, [RIGHT] * 3))),
        (WrongValues, patient(units=products([RIGHT], [WRONG], names=[H100, A100]))),
        (WrongValues, patient(units=(unit(0), unit(1)))),
    ],
)
def test_healthy(check, found):
    assert examine(check, found) == []


@pytest.mark.parametrize(
    ("check", "found", "words"),
    [
        (MachineUnfit, machines((), (), unexamined=("the driver did not answer",)), "no machine was examined"),
        (NodesDisagree, patient(1), "one node"),
        (SlowerThanBefore, compared(replace(cards(640e12), units=(unit(0, uuid="GPU-9", figures=()),)), cards(640e12)), "none of these units"),
        (SlowerThanBefore, make_patient(preflight=cards(640e12)), "--baseline"),
        (StorageUnfit, patient(2), "--storage"),
        (ThrottlesUnderLoad, patient(2, units=(unit(0),)), "--burn"),
    ],
)  # fmt: skip
def test_what_was_not_tested_is_said(check, found, words):
    with pytest.raises(Unavailable, match=words):
        examine(check, found)
