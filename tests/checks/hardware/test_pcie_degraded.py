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


def test_sick_a_low_generation_under_load():
    patient = make_patient(gpus=[make_gpu(0, pcie_generation=1, utilization=0.9)])
    [finding] = examine(PcieDegraded, patient)
    assert "generation 1 of 5" in finding.message
    assert finding.detail.ratio == 16.0


def test_sick_a_desktop_card_at_x4_is_a_warning():
    [finding] = examine(PcieDegraded, make_patient(gpus=[make_gpu(0, pcie_width=4, **GEFORCE)]))
    assert finding.severity is Severity.WARNING


def test_a_desktop_card_at_x8_is_a_note():
    patient = make_patient(gpus=[make_gpu(0, pcie_width=8, **GEFORCE)])
    [finding] = examine(PcieDegraded, patient)
    assert finding.severity is Severity.NOTE
    [move] = prescribe(pcie_degraded, finding, patient)
    assert "x16 slot" in move.title


def test_healthy_an_idle_gpu_at_generation_1_is_silent():
    gpus = [make_gpu(0, pcie_generation=1, utilization=0.0), make_gpu(1, pcie_generation=1, utilization=0.49)]
    assert examine(PcieDegraded, make_patient(gpus=gpus)) == []


def test_healthy_load_that_is_not_known_is_no_load():
    gpu = make_gpu(0, pcie_generation=1, utilization=Absent("not supported by this card"))
    assert examine(PcieDegraded, make_patient(gpus=[gpu])) == []


def test_healthy_a_slot_that_has_only_x8_is_silent():
    assert examine(PcieDegraded, make_patient(gpus=[make_gpu(0, pcie_width=8, pcie_width_max=8)])) == []


def test_a_machine_that_tells_no_width_is_skipped():
    with pytest.raises(Unavailable):
        examine(PcieDegraded, make_patient(gpus=[make_gpu(0, pcie_width=Absent("no permission"))]))


def test_a_grace_module_has_no_pcie_to_judge():
    with pytest.raises(Unavailable, match="C2C"):
        examine(PcieDegraded, make_patient(gpus=[make_gpu(0, name="NVIDIA GH200 480GB", pcie_width=1)]))
