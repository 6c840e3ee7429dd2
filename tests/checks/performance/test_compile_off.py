from scripts import PATIENTS, script_patient

from gpudoctor.testing import examine, make_gpu, make_torch
from gpudoctor_checks.performance.compile_off import CompileOff

FOLDER = PATIENTS / "PERF003"


def test_healthy_old_torch_and_old_card():
    path = FOLDER / "sick_resnet.py"
    assert examine(CompileOff, script_patient(path, torch=make_torch("1.13.1+cu117"))) == []
    assert examine(CompileOff, script_patient(path, gpus=[make_gpu(compute_capability=(6, 1))])) == []
