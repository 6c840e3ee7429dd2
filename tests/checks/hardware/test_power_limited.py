import pytest

from gpudoctor.model import Absent, Severity, Unavailable
from gpudoctor.testing import examine, make_gpu, make_patient, prescribe
from gpudoctor_checks.hardware.power_limited import PowerLimited
from gpudoctor_rules.hardware import power_limited

NONE = Absent("not supported by this card")


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
