from scripts import PATIENTS, script_patient

from gpudoctor.testing import examine, make_gpu, prescribe
from gpudoctor_checks.performance.tf32_off import Tf32Off
from gpudoctor_rules.performance import tf32_off

FOLDER = PATIENTS / "PERF002"


def test_healthy_on_a_card_older_than_ampere():
    patient = script_patient(FOLDER / "sick_matmul.py", gpus=[make_gpu(compute_capability=(7, 0))])
    assert examine(Tf32Off, patient) == []


def test_sick_environment():
    patient = script_patient(FOLDER / "healthy_unspoken.py", environment={"NVIDIA_TF32_OVERRIDE": "0"})
    [finding] = examine(Tf32Off, patient)
    [remedy] = prescribe(tf32_off, finding, patient)
    assert remedy.title == "unset NVIDIA_TF32_OVERRIDE"


def test_healthy_environment():
    patient = script_patient(FOLDER / "healthy_unspoken.py", environment={"NVIDIA_TF32_OVERRIDE": "1"})
    assert examine(Tf32Off, patient) == []
