import pytest
from configs import config_files, config_patient
from scripts import PATIENTS, healthy_scripts, script_patient, sick_scripts

from gpudoctor.model import Severity
from gpudoctor.testing import examine, make_gpu, prescribe
from gpudoctor_checks.performance.tf32_off import Tf32Off
from gpudoctor_rules.performance import tf32_off

FOLDER = PATIENTS / "PERF002"
LINES = {"sick_matmul": [5, 6], "sick_highest": [15], "sick_trainer": [4]}


@pytest.mark.parametrize("path", sick_scripts("PERF002"), ids=lambda path: path.stem)
def test_sick_script(path):
    findings = examine(Tf32Off, script_patient(path))
    assert [finding.span.line for finding in findings] == LINES[path.stem]
    assert all(finding.severity is Severity.WARNING for finding in findings)


@pytest.mark.parametrize("path", healthy_scripts("PERF002"), ids=lambda path: path.stem)
def test_healthy_script(path):
    assert examine(Tf32Off, script_patient(path)) == []


def test_sick_config():
    patient = config_patient(*config_files("PERF002", "sick"))
    [finding] = examine(Tf32Off, patient)
    assert finding.severity is Severity.NOTE
    [remedy] = prescribe(tf32_off, finding, patient)
    assert remedy.title == "tf32: true" and remedy.edits


def test_healthy_config():
    assert examine(Tf32Off, config_patient(*config_files("PERF002", "healthy"))) == []


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
