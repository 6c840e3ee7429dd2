import pytest

from gpudoctor.model import Absent, Severity, Unavailable
from gpudoctor.testing import examine, make_gpu, make_patient, prescribe
from gpudoctor_checks.hardware.pcie_degraded import PcieDegraded
from gpudoctor_rules.hardware import pcie_degraded

GEFORCE = {"name": "NVIDIA GeForce RTX 4090", "pcie_generation_max": 4}


@pytest.mark.parametrize(
    ("changes", "severity", "words", "ratio", "titles"),
    [
        ({"pcie_width": 8}, Severity.WARNING, "x8 of x16", 2.0, ["CUDA_VISIBLE_DEVICES=0", "up to 2x"]),
        ({"pcie_generation": 1, "utilization": 0.9}, Severity.WARNING, "generation 1 of 5", 16.0, ["=0", "up to 16x"]),
        ({"pcie_width": 4, **GEFORCE}, Severity.WARNING, "x4 of x16", 4.0, ["=0", "up to 4x"]),
        ({"pcie_width": 8, **GEFORCE}, Severity.NOTE, "x8 of x16", 2.0, ["x16 slot"]),
    ],
)
def test_sick_links(changes, severity, words, ratio, titles):
    patient = make_patient(gpus=[make_gpu(0), make_gpu(1, **changes)])
    [finding] = examine(PcieDegraded, patient)
    assert finding.severity is severity and finding.subject == "GPU 1"
    assert words in finding.message and finding.detail.ratio == ratio
    remedies = prescribe(pcie_degraded, finding, patient)
    assert all(title in remedy.title for title, remedy in zip(titles, remedies, strict=True))


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
