import pytest

from gpudoctor.model import Absent, Severity, Unavailable
from gpudoctor.testing import examine, make_gpu, make_patient, prescribe
from gpudoctor_checks.hardware.hot import Hot
from gpudoctor_rules.advice import advice
from gpudoctor_rules.hardware import hot

NONE = Absent("not supported by this card")


def test_sick_close_to_the_slowdown():
    patient = make_patient(gpus=[make_gpu(0), make_gpu(1, temperature=84.0, temperature_margin=4.0)])
    [finding] = examine(Hot, patient)
    assert finding.severity is Severity.WARNING and finding.subject == "GPU 1"
    assert "84 °C, 4 °C below its slowdown" in finding.message
    away, cool = prescribe((hot, *advice("hardware")), finding, patient)
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
