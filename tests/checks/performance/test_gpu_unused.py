import pytest
from scripts import PATIENTS, script_patient

from gpudoctor.model import Unavailable
from gpudoctor.testing import examine, make_gpu
from gpudoctor_checks.performance.gpu_unused import GpuUnused

FOLDER = PATIENTS / "PERF009"


def test_healthy_machine_without_a_gpu_is_no_case():
    with pytest.raises(Unavailable):
        examine(GpuUnused, script_patient(FOLDER / "sick_no_device.py", gpus=[]))


def test_healthy_when_the_launch_line_names_cuda():
    patient = script_patient(FOLDER / "sick_option_default_cpu.py", ["--device", "cuda"], gpus=[make_gpu()])
    assert examine(GpuUnused, patient) == []
