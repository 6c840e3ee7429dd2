import pytest

from gpudoctor.model import Absent, Severity, Unavailable
from gpudoctor.model.signs.gpu import NvLink
from gpudoctor.testing import examine, make_gpu, make_patient, prescribe
from gpudoctor_checks.hardware.nvlink_down import NvlinkDown
from gpudoctor_rules.advice import advice
from gpudoctor_rules.hardware import leave_out

NONE = Absent("not supported by this card")


def links(count, off=()):
    return tuple(NvLink(index=i, active=i not in off) for i in range(count))


def bridged(index, count=12, off=(), **changes):
    """A PCIe card with NVLink bridges."""
    return make_gpu(
        index, name="NVIDIA A100 80GB PCIe", nvlinks=links(count, off), fabric_state=NONE, fabric_unhealthy=NONE, **changes
    )  # fmt: skip


@pytest.mark.parametrize(
    ("gpus", "words"),
    [
        ([make_gpu(0, name="NVIDIA A100-SXM4-80GB", nvlinks=links(12, off={3, 4}), fabric_state=NONE)], "GPU 0: ports 3, 4 off"),
        ([make_gpu(0), make_gpu(1, fabric_unhealthy=True)], "unhealthy for GPU 1"),
    ],
)  # fmt: skip
def test_sick_ports_and_fabrics(gpus, words):
    [finding] = examine(NvlinkDown, make_patient(gpus=gpus))
    assert words in finding.message


@pytest.mark.parametrize("state", [1, 2])
def test_sick_a_fabric_that_is_not_ready(state):
    patient = make_patient(gpus=[make_gpu(i, fabric_state=state) for i in range(4)])
    [finding] = examine(NvlinkDown, patient)
    assert "not ready" in finding.message and finding.detail.cause == "fabric" and finding.subject == "GPU 0-3"
    [manager] = prescribe((leave_out, *advice("hardware")), finding, patient)
    assert "fabricmanager" in manager.title


@pytest.mark.parametrize(
    "name", ["NVIDIA H100 PCIe", "NVIDIA H100 NVL", "NVIDIA GH200 480GB", "NVIDIA GeForce RTX 3090"]
)
def test_healthy_fabric_states_of_cards_without_switches_are_not_judged(name):
    assert examine(NvlinkDown, make_patient(gpus=[make_gpu(0, name=name, fabric_state=2)])) == []


@pytest.mark.parametrize(
    "gpus",
    [
        [bridged(0, off={8, 9, 10, 11}), bridged(1, off={8, 9, 10, 11})],
        [bridged(0), bridged(1), bridged(2, off=range(12)), bridged(3, off=range(12))],  # a pair with a bridge
        [make_gpu(0, nvlinks=links(18)), make_gpu(1, nvlinks=links(18, off=range(18)), mig_enabled=True)],
        [make_gpu(i, nvlinks=links(18)) for i in range(8)],
    ],
)
def test_healthy_ports(gpus):
    assert examine(NvlinkDown, make_patient(gpus=gpus)) == []


def test_cards_without_nvlink_are_skipped():
    gpu = make_gpu(0, nvlinks=NONE, fabric_state=NONE)
    with pytest.raises(Unavailable, match="no NVLink"):
        examine(NvlinkDown, make_patient(gpus=[gpu]))


def test_a_gpu_that_the_job_leaves_out_is_a_note():
    gpus = [make_gpu(0, nvlinks=links(18)), make_gpu(1, nvlinks=links(18, off={7}))]
    patient = make_patient(gpus=gpus, environment={"CUDA_VISIBLE_DEVICES": "0"})
    [finding] = examine(NvlinkDown, patient)
    assert finding.severity is Severity.NOTE


def test_sick_one_port_off_on_a_board_that_wires_all():
    gpus = [make_gpu(0, nvlinks=links(18)), make_gpu(1, nvlinks=links(18, off={7}))]
    patient = make_patient(gpus=gpus)
    [finding] = examine(NvlinkDown, patient)
    assert finding.severity is Severity.ERROR and finding.subject == "GPU 1" and finding.cost.breaks
    assert "ports 7 off" in finding.message
    titles = [remedy.title for remedy in prescribe((leave_out, *advice("hardware")), finding, patient)]
    assert titles[:2] == ["CUDA_VISIBLE_DEVICES=0", "reset GPU 1 before it is used again"]
