import pytest
from scripts import PATIENTS, healthy_scripts, script_patient, sick_scripts

from gpudoctor.model import Applicability, Severity
from gpudoctor.testing import examine, make_gpu, prescribe
from gpudoctor_checks.distributed.dataparallel import Dataparallel
from gpudoctor_rules.distributed.dataparallel import DataparallelRule

FOLDER = PATIENTS / "DIST005"


@pytest.mark.parametrize("path", sick_scripts("DIST005"), ids=lambda path: path.stem)
def test_sick_script(path):
    [finding] = examine(Dataparallel, script_patient(path))
    assert finding.severity is Severity.WARNING
    assert "DataParallel(" in finding.span.text


@pytest.mark.parametrize("path", healthy_scripts("DIST005"), ids=lambda path: path.stem)
def test_healthy_script(path):
    assert examine(Dataparallel, script_patient(path)) == []


def test_sick_when_the_switch_is_given():
    assert examine(Dataparallel, script_patient(FOLDER / "healthy_switch_off.py", ["--data-parallel"]))


def test_sick_remedy_counts_the_gpus():
    patient = script_patient(FOLDER / "sick_wrapped.py", gpus=[make_gpu(index) for index in range(4)])
    [finding] = examine(Dataparallel, patient)
    assert "4 GPUs are here" in finding.message
    [remedy] = prescribe(DataparallelRule, finding, patient)
    assert any("--nproc_per_node=4" in step for step in remedy.steps)
    assert remedy.applicability is Applicability.DISPLAY_ONLY


def test_healthy_machine_with_one_gpu_is_a_note():
    patient = script_patient(FOLDER / "sick_wrapped.py", gpus=[make_gpu()])
    [finding] = examine(Dataparallel, patient)
    assert finding.severity is Severity.NOTE
