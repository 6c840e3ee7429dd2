from scripts import PATIENTS, script_patient

from gpudoctor.testing import examine, make_gpu
from gpudoctor_checks.performance.tf32_off import Tf32Off

FOLDER = PATIENTS / "PERF002"


def test_healthy_on_a_card_older_than_ampere():
    patient = script_patient(FOLDER / "sick_matmul.py", gpus=[make_gpu(compute_capability=(7, 0))])
    assert examine(Tf32Off, patient) == []
