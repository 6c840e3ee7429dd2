"""Checks of cards by what their driver says."""

import pytest

from gpudoctor.model import Absent, Applicability, Confidence, Severity, Unavailable
from gpudoctor.testing import examine, make_gpu, make_patient, prescribe
from gpudoctor_checks.hardware.hot import Hot
from gpudoctor_checks.hardware.pcie_degraded import PcieDegraded
from gpudoctor_checks.hardware.persistence_off import PersistenceOff
from gpudoctor_checks.hardware.power_limited import PowerLimited
from gpudoctor_checks.hardware.throttled import Throttled
from gpudoctor_rules.advice import advice
from gpudoctor_rules.hardware import leave_out, pcie_degraded, power_limited

NONE = Absent("not supported by this card")


def test_sick_close_to_the_slowdown():
    patient = make_patient(gpus=[make_gpu(0), make_gpu(1, temperature=84.0, temperature_margin=4.0)])
    [finding] = examine(Hot, patient)
    assert finding.severity is Severity.WARNING and finding.subject == "GPU 1"
    assert "84 °C, 4 °C below its slowdown" in finding.message
    away, cool = prescribe((leave_out, *advice("hardware")), finding, patient)
    assert away.title == "CUDA_VISIBLE_DEVICES=0" and "cooling of GPU 1" in cool.title


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"temperature": 91.0, "temperature_margin": NONE, "temperature_slowdown": 95.0, "temperature_max": NONE}, "4 °C below"),
        ({"temperature": 89.0, "temperature_margin": 1.0}, "above its operating maximum of 87 °C"),
        ({"temperature_memory": 97.0}, "memory 97 °C, above its maximum of 95 °C"),
    ],
)  # fmt: skip
def test_sick_by_limits(changes, words):
    gpu = make_gpu(0, **changes)
    [finding] = examine(Hot, make_patient(gpus=[gpu]))
    assert words in finding.message and finding.evidence[0].value == gpu.temperature


@pytest.mark.parametrize(
    "changes",
    [
        {"temperature": 84.0, "temperature_margin": 5.0},
        {"temperature_memory": 95.0},
        {"temperature_memory": 99.0, "temperature_memory_max": NONE},
        {"temperature": 30.0, "temperature_margin": 0.0},
        {"temperature": 30.0, "temperature_margin": -3.0},
        {"temperature": 85.0, "temperature_margin": NONE, "temperature_slowdown": NONE},
    ],
)
def test_healthy(changes):
    assert examine(Hot, make_patient(gpus=[make_gpu(0, **changes)])) == []


def test_cards_without_a_thermometer_are_skipped():
    with pytest.raises(Unavailable):
        examine(Hot, make_patient(gpus=[make_gpu(0, temperature=NONE, temperature_memory=NONE)]))


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


def test_sick_half_the_power():
    patient = make_patient(gpus=[make_gpu(0), make_gpu(1, power_limit=350.0), make_gpu(2, power_limit=350.0)])
    [finding] = examine(PowerLimited, patient)
    assert finding.severity is Severity.WARNING and finding.subject == "GPU 1, 2"
    assert "350 W of 700 W" in finding.message
    [remedy] = prescribe(power_limited, finding, patient)
    assert remedy.title == "set the power limit of GPU 1,2 to 700 W"
    assert remedy.steps[0] == "sudo nvidia-smi -i 1,2 -pl 700"
    assert remedy.effect is not None and (remedy.effect.low, remedy.effect.high) == (1.0, 2.0)


def test_sick_a_little_below_is_a_note():
    [finding] = examine(PowerLimited, make_patient(gpus=[make_gpu(0, power_limit=650.0)]))
    assert finding.severity is Severity.NOTE


@pytest.mark.parametrize("limit", [700.0, 699.9, 694.0, 800.0])
def test_healthy_at_about_or_above_the_default(limit):
    assert examine(PowerLimited, make_patient(gpus=[make_gpu(0, power_limit=limit)])) == []


def test_cards_without_a_limit_are_skipped():
    with pytest.raises(Unavailable):
        examine(PowerLimited, make_patient(gpus=[make_gpu(0, power_limit=NONE)]))


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


@pytest.mark.parametrize(
    ("gpus", "subject", "words", "heat", "power"),
    [
        ([make_gpu(0), make_gpu(5, event_reasons=0x48, temperature=91.0)], "GPU 5",
         "hardware thermal slowdown", True, False),
        ([*(make_gpu(index, event_reasons=0x80) for index in (0, 1, 2)), make_gpu(3)], "GPU 0-2", "", False, True),
    ],
)  # fmt: skip
def test_sick_heat_and_power(gpus, subject, words, heat, power):
    [finding] = examine(Throttled, make_patient(gpus=gpus))
    assert (finding.subject, finding.severity, finding.confidence) == (subject, Severity.WARNING, Confidence.CONFIRMED)
    assert words in finding.message and (finding.detail.heat, finding.detail.power) == (heat, power)
    assert len(finding.evidence) == (1 if heat else 3)


def test_healthy_idle_power_cap_application_clocks_display_and_a_card_that_does_not_tell_are_silent():
    reasons = [0x1, 0x0, 0x4, 0x2, 0x10, 0x100, 0x1 | 0x8, Absent("no permission")]
    gpus = [make_gpu(index, event_reasons=bits) for index, bits in enumerate(reasons)]
    assert examine(Throttled, make_patient(gpus=gpus)) == []


def test_the_mask_can_be_overridden():
    patient = make_patient(gpus=[make_gpu(0, event_reasons=0x4)])
    assert len(examine(Throttled, patient, bad_reasons=0xEC)) == 1


def test_the_rule_names_the_other_gpus_and_cooling_or_power():
    patient = make_patient(gpus=[make_gpu(0), make_gpu(1, event_reasons=0x40), make_gpu(2)])
    [finding] = examine(Throttled, patient)
    away, cool = prescribe((leave_out, *advice("hardware")), finding, patient)
    assert away.sets == (("CUDA_VISIBLE_DEVICES", "0,2"),)
    assert "cooling of GPU 1" in cool.title and cool.applicability is Applicability.DISPLAY_ONLY
    patient = make_patient(gpus=[make_gpu(0, event_reasons=0x88)])
    [finding] = examine(Throttled, patient)
    [power] = prescribe((leave_out, *advice("hardware")), finding, patient)
    assert "power supply" in power.title
