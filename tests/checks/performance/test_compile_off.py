import pytest
from mending import gone, mended
from scripts import PATIENTS, healthy_scripts, script_patient, sick_scripts

from gpudoctor.model import Applicability, Severity
from gpudoctor.testing import examine, make_gpu, make_torch, prescribe
from gpudoctor_checks.performance.compile_off import CompileOff
from gpudoctor_rules.performance import compile_off

FOLDER = PATIENTS / "PERF003"


@pytest.mark.parametrize("path", sick_scripts("PERF003"), ids=lambda path: path.stem)
def test_sick_script(path):
    patient = script_patient(path)
    [finding] = examine(CompileOff, patient)
    assert finding.severity is Severity.NOTE
    [remedy] = prescribe(compile_off, finding, patient)
    assert remedy.applicability is Applicability.UNSAFE and remedy.effect is not None
    assert remedy.title == ("torch_compile=True" if path.stem == "sick_trainer" else "model.compile()")


@pytest.mark.parametrize("path", healthy_scripts("PERF003"), ids=lambda path: path.stem)
def test_healthy_script(path):
    assert examine(CompileOff, script_patient(path)) == []


def test_healthy_old_torch_and_old_card():
    path = FOLDER / "sick_resnet.py"
    assert examine(CompileOff, script_patient(path, torch=make_torch("1.13.1+cu117"))) == []
    assert examine(CompileOff, script_patient(path, gpus=[make_gpu(compute_capability=(6, 1))])) == []


@pytest.mark.parametrize("name", ["sick_resnet", "sick_trainer"])
def test_sick_edit_cures(name):
    assert gone("PERF003", (FOLDER / f"{name}.py").read_text("utf-8"))


def test_sick_edit_stands_after_the_model():
    after = mended((FOLDER / "sick_resnet.py").read_text("utf-8"), select="PERF003")
    assert "resnet50(num_classes=1000).to(device)\n    model.compile()\n    criterion" in after
