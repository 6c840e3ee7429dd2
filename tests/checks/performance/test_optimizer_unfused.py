import pytest
from scripts import PATIENTS, healthy_scripts, script_patient, sick_scripts

from gpudoctor.model import Severity
from gpudoctor.testing import examine, make_torch, prescribe
from gpudoctor_checks.performance.optimizer_unfused import OptimizerUnfused
from gpudoctor_rules.performance import optimizer_unfused

FOLDER = PATIENTS / "PERF005"
TITLES = {"sick_foreach_off": "fused=True"}


@pytest.mark.parametrize("path", sick_scripts("PERF005"), ids=lambda path: path.stem)
def test_sick_script(path):
    patient = script_patient(path)
    [finding] = examine(OptimizerUnfused, patient)
    assert finding.severity is Severity.NOTE
    [remedy] = prescribe(optimizer_unfused, finding, patient)
    assert TITLES[path.stem] in remedy.title


@pytest.mark.parametrize("path", healthy_scripts("PERF005"), ids=lambda path: path.stem)
def test_healthy_script(path):
    assert examine(OptimizerUnfused, script_patient(path)) == []


def test_sick_default_of_an_old_torch():
    path = FOLDER / "healthy_default.py"
    [finding] = examine(OptimizerUnfused, script_patient(path, torch=make_torch("1.13.1+cu117")))
    [remedy] = prescribe(optimizer_unfused, finding, script_patient(path))
    assert "foreach=True" in remedy.title
