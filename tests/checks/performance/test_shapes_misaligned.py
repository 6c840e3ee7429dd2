import pytest
from configs import config_files, config_patient
from mending import gone
from scripts import PATIENTS, healthy_scripts, script_patient, sick_scripts

from gpudoctor.model import Severity
from gpudoctor.testing import examine, make_gpu, prescribe
from gpudoctor_checks.performance.shapes_misaligned import ShapesMisaligned
from gpudoctor_rules.performance.shapes_misaligned import ShapesMisalignedRule

FOLDER = PATIENTS / "PERF008"
TITLES = {
    "sick_vocabulary": "50257 -> 50304",
    "sick_collator": "pad_to_multiple_of=8",
    "sick_resized": "pad_to_multiple_of=64",
}


@pytest.mark.parametrize("path", sick_scripts("PERF008"), ids=lambda path: path.stem)
def test_sick_script(path):
    patient = script_patient(path)
    [finding] = examine(ShapesMisaligned, patient)
    assert finding.severity is Severity.NOTE
    [remedy] = prescribe(ShapesMisalignedRule, finding, patient)
    assert remedy.title == TITLES[path.stem]


@pytest.mark.parametrize("path", healthy_scripts("PERF008"), ids=lambda path: path.stem)
def test_healthy_script(path):
    assert examine(ShapesMisaligned, script_patient(path)) == []


def test_sick_config():
    [path] = config_files("PERF008", "sick")
    findings = examine(ShapesMisaligned, config_patient(path))
    assert {finding.fact("rounded") for finding in findings} == {50304, 1024}
    assert gone("PERF008", path.read_text("utf-8"), path.name)


@pytest.mark.parametrize("path", config_files("PERF008", "healthy"), ids=lambda path: path.stem)
def test_healthy_config(path):
    assert examine(ShapesMisaligned, config_patient(path)) == []


def test_healthy_card_without_tensor_cores():
    patient = script_patient(FOLDER / "sick_vocabulary.py", gpus=[make_gpu(compute_capability=(6, 1))])
    assert examine(ShapesMisaligned, patient) == []


@pytest.mark.parametrize("name", ["sick_collator", "sick_resized"])
def test_sick_edit_cures(name):
    assert gone("PERF008", (FOLDER / f"{name}.py").read_text("utf-8"))
