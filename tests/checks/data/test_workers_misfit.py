import pytest
from scripts import PATIENTS, healthy_scripts, script_patient, sick_scripts

from gpudoctor.model import Severity
from gpudoctor.testing import examine, make_host, prescribe
from gpudoctor_checks.data.workers_misfit import WorkersMisfit
from gpudoctor_rules.data.workers_misfit import WorkersMisfitRule

FOLDER = PATIENTS / "DATA003"


@pytest.mark.parametrize("path", sick_scripts("DATA003"), ids=lambda path: path.stem)
def test_sick_script(path):
    assert len(examine(WorkersMisfit, script_patient(path, host=make_host(cpus_affinity=16)))) == 1


def test_sick_too_many_is_measured_against_the_quota():
    patient = script_patient(FOLDER / "sick_too_many.py", host=make_host(cpus_affinity=128, cpu_quota=6.0))
    [finding] = examine(WorkersMisfit, patient)
    assert finding.severity is Severity.WARNING
    assert "64 workers" in finding.message
    assert "6 CPUs" in finding.message
    [remedy] = prescribe(WorkersMisfitRule, finding, patient)
    assert remedy.sets == (("DataLoader.num_workers", "5"),)
    assert remedy.edits[0].set == (("num_workers", "5"),)


@pytest.mark.parametrize("script", ["sick_prefetch_without_workers.py", "sick_persistent_without_workers.py"])
def test_sick_arguments_without_workers_break_the_constructor(script):
    patient = script_patient(FOLDER / script, host=make_host(cpus_affinity=8))
    [finding] = examine(WorkersMisfit, patient)
    assert finding.severity is Severity.ERROR
    assert "ValueError" in finding.cost.breaks
    drop, workers = prescribe(WorkersMisfitRule, finding, patient)
    assert drop.edits[0].remove == (finding.fact("keyword"),)
    assert workers.edits[0].set == (("num_workers", "7"),)


@pytest.mark.parametrize("script", ["sick_respawned.py", "sick_built_in_epoch.py"])
def test_sick_respawned_workers_are_a_note(script):
    patient = script_patient(FOLDER / script, host=make_host())
    [finding] = examine(WorkersMisfit, patient)
    assert finding.severity is Severity.NOTE
    assert "persistent_workers=True" in prescribe(WorkersMisfitRule, finding, patient)[0].title


@pytest.mark.parametrize("path", healthy_scripts("DATA003"), ids=lambda path: path.stem)
def test_healthy_script(path):
    assert examine(WorkersMisfit, script_patient(path, host=make_host(cpus_affinity=16))) == []


def test_healthy_on_a_machine_with_enough_cpus():
    patient = script_patient(FOLDER / "sick_too_many.py", host=make_host(cpus_affinity=64))
    assert examine(WorkersMisfit, patient) == []


def test_healthy_without_a_host_nothing_is_compared():
    assert examine(WorkersMisfit, script_patient(FOLDER / "sick_too_many.py")) == []
