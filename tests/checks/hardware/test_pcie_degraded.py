import pytest

from gpudoctor.model import Absent, Severity, Unavailable
from gpudoctor.testing import examine, make_gpu, make_patient, prescribe
from gpudoctor_checks.hardware.pcie_degraded import PcieDegraded
from gpudoctor_rules.hardware import pcie_degraded

GEFORCE = {"name": "NVIDIA GeForce RTX 4090", "pcie_generation_max": 4}


def test_sick_half_the_lanes():
    patient = make_patient(gpus=[make_gpu(0), make_gpu(1, pcie_width=8)])
    [finding] = examine(PcieDegraded, patient)
    assert finding.severity is Severity.WARNING and finding.subject == "GPU 1"
    assert "x8 of x16" in finding.message
    away, reseat = prescribe(pcie_degraded, finding, patient)
    assert away.title == "CUDA_VISIBLE_DEVICES=0"
    assert "up to 2x" in reseat.title


@pytest.mark.parametrize(
    ("changes", "words", "ratio"),
    [
        ({"pcie_generation": 1, "utilization": 0.9}, "generation 1 of 5", 16.0),
        ({"pcie_width": 4, **GEFORCE}, "x4 of x16", 4.0),
    ],
)
def test_sick_a_low_generation_under_load_and_a_desktop_card_at_x4(changes, words, ratio):
    [finding] = examine(PcieDegraded, make_patient(gpus=[make_gpu(0, **changes)]))
    assert finding.severity is Severity.WARNING and words in finding.message and finding.detail.ratio == ratio


def test_a_desktop_card_at_x8_is_a_note():
    patient = make_patient(gpus=[make_gpu(0, pcie_width=8, **GEFORCE)])
    [finding] = examine(PcieDegraded, patient)
    assert finding.severity is Severity.NOTE
    [move] = prescribe(pcie_degraded, finding, patient)
    assert "x16 slot" in move.title


UNKNOWN = Absent("not supported by this card")


@pytest.mark.parametrize(
    "changes",
    [
        {"pcie_generation": 1, "utilization": 0.0},
        {"pcie_generation": 1, "utilization": 0.49},
        {"pcie_generation": 1, "utilization": UNKNOWN},
        {"pcie_width": 8, "pcie_width_max": 8},  # a slot that has no more
    ],
)
def test_healthy_links(changes):
    assert examine(PcieDegraded, make_patient(gpus=[make_gpu(0, **changes)])) == []


@pytest.mark.parametrize(
    ("changes", "why"),
    [({"pcie_width": UNKNOWN}, "not supported"), ({"name": "NVIDIA GH200 480GB", "pcie_width": 1}, "C2C")],
)
def test_links_that_cannot_be_judged_are_skipped(changes, why):
    with pytest.raises(Unavailable, match=why):
        examine(PcieDegraded, make_patient(gpus=[make_gpu(0, **changes)]))
