from scripts import PATIENTS, script_patient

from gpudoctor.testing import examine, make_torch, prescribe
from gpudoctor_checks.performance.optimizer_unfused import OptimizerUnfused
from gpudoctor_rules.performance import optimizer_unfused

FOLDER = PATIENTS / "PERF005"


def test_sick_default_of_an_old_torch():
    path = FOLDER / "healthy_default.py"
    [finding] = examine(OptimizerUnfused, script_patient(path, torch=make_torch("1.13.1+cu117")))
    [remedy] = prescribe(optimizer_unfused, finding, script_patient(path))
    assert "foreach=True" in remedy.title
