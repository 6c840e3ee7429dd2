import pytest
from scripts import PATIENTS, healthy_scripts, script_patient, sick_scripts

from gpudoctor.model import Applicability, Severity
from gpudoctor.testing import examine, make_host, prescribe
from gpudoctor_checks.data.slow_start import SlowStart
from gpudoctor_rules.data.items import slow_start

FOLDER = PATIENTS / "DATA012"
GUILTY = {
    "sick_one_by_one": (12, "workers", "num_proc="),
    "sick_no_cache": (8, "cache", "cache"),
    "sick_large": (13, "workers", "num_proc="),
}


@pytest.mark.parametrize("path", sick_scripts("DATA012"), ids=lambda path: path.stem)
def test_sick_script_and_its_advice(path):
    patient = script_patient(path)
    [finding] = examine(SlowStart, patient)
    line, kind, advice = GUILTY[path.stem]
    assert (finding.span.line, finding.detail.kind, finding.severity) == (line, kind, Severity.NOTE)
    [remedy] = prescribe(slow_start, finding, patient)
    assert advice in remedy.title and remedy.edits == ()  # a mapped function may count, or draw random numbers


@pytest.mark.parametrize("path", healthy_scripts("DATA012"), ids=lambda path: path.stem)
def test_healthy_script(path):
    assert examine(SlowStart, script_patient(path)) == []


def test_the_rule_names_processes_for_this_machine():
    patient = script_patient(FOLDER / "sick_one_by_one.py", host=make_host(cpus_affinity=12))
    [finding] = examine(SlowStart, patient)
    [remedy] = prescribe(slow_start, finding, patient)
    assert (remedy.title, remedy.applicability) == ("num_proc=12", Applicability.DISPLAY_ONLY)
