import pytest

from gpudoctor.model import Absent, Applicability, Confidence, Severity
from gpudoctor.testing import examine, make_gpu, make_patient, prescribe
from gpudoctor_checks.hardware.throttled import Throttled
from gpudoctor_rules.advice import advice
from gpudoctor_rules.hardware import throttled


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
    away, cool = prescribe((throttled, *advice("hardware")), finding, patient)
    assert away.sets == (("CUDA_VISIBLE_DEVICES", "0,2"),)
    assert "cooling of GPU 1" in cool.title and cool.applicability is Applicability.DISPLAY_ONLY
    patient = make_patient(gpus=[make_gpu(0, event_reasons=0x88)])
    [finding] = examine(Throttled, patient)
    [power] = prescribe((throttled, *advice("hardware")), finding, patient)
    assert "power supply" in power.title
