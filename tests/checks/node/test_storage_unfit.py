import pytest
from preflights import GB, figure, node, patient

from gpudoctor.model import Severity, Unavailable
from gpudoctor.model.signs.preflight import Quantity, StorageTest
from gpudoctor.testing import examine, prescribe
from gpudoctor_checks.node.storage_unfit import StorageUnfit
from gpudoctor_rules.advice import advice


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
    assert remedy in [item.id for item in prescribe(advice("node"), finding, found)]


def test_sick_one_node_is_slow():
    found = patient(6, storage=tuple(seen(at, 0.2 * GB if at == 4 else 2 * GB) for at in range(6)))
    [finding] = examine(StorageUnfit, found)
    assert finding.severity is Severity.WARNING
    assert finding.message == "node04 writes /scratch at 200 MB/s, the median of 6 nodes is 2 GB/s: 90 % slower."


def test_sick_little_space_is_left():
    found = patient(2, nodes=(node(0, free_bytes={"/scratch": 1 << 40}), node(1, free_bytes={"/scratch": 5 << 20})))
    [finding] = examine(StorageUnfit, found)
    assert finding.message == "/scratch has 5 MiB free on node01."
    assert [item.id for item in prescribe(advice("node"), finding, found)] == ["NODE012-space"]


def test_healthy_everybody_reads_and_writes():
    assert examine(StorageUnfit, patient(4, storage=tuple(seen(at, (2 + 0.1 * at) * GB) for at in range(4)))) == []


def test_without_a_folder_it_says_how():
    with pytest.raises(Unavailable, match="--storage"):
        examine(StorageUnfit, patient(2))
