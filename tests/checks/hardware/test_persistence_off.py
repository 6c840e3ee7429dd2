import pytest

from gpudoctor.model import Severity
from gpudoctor.testing import examine, make_gpu, make_patient, prescribe
from gpudoctor_checks.hardware.persistence_off import PersistenceOff
from gpudoctor_rules.advice import advice


@pytest.mark.parametrize(
    "name",
    ["NVIDIA H100 80GB HBM3", "Tesla V100-SXM2-16GB", "NVIDIA A40", "NVIDIA L40S", "Tesla T4", "NVIDIA H200", "NVIDIA B200",
     "NVIDIA RTX PRO 6000 Blackwell Server Edition"],
)  # fmt: skip
def test_sick_off_on_a_server_card(name):
    patient = make_patient(gpus=[make_gpu(0, name=name, persistence=False), make_gpu(1)])
    [finding] = examine(PersistenceOff, patient)
    assert finding.severity is Severity.NOTE and finding.subject == "GPU 0"
    [remedy] = prescribe(advice("hardware"), finding, patient)
    assert "nvidia-persistenced" in remedy.steps[0]


@pytest.mark.parametrize(
    "name",
    ["NVIDIA GeForce RTX 4090", "NVIDIA RTX A6000", "NVIDIA TITAN V", "Quadro P4000", "NVIDIA RTX 5000 Ada Generation",
     "NVIDIA GeForce RTX 4060 Laptop GPU", "Orin (nvgpu)", "GRID A100-10C", "NVIDIA A40-48Q", "NVIDIA GB10"],
)  # fmt: skip
def test_healthy_desks_laptops_and_virtual_gpus(name):
    assert examine(PersistenceOff, make_patient(gpus=[make_gpu(0, name=name, persistence=False)])) == []


def test_healthy_on():
    assert examine(PersistenceOff, make_patient(gpus=[make_gpu(0)])) == []
