import pytest
from scripts import PATIENTS, healthy_scripts, script_patient, sick_scripts

from gpudoctor.model import Severity
from gpudoctor.testing import examine, prescribe
from gpudoctor_checks.distributed.backend_slow import BackendSlow
from gpudoctor_rules.distributed import backend_slow

FOLDER = PATIENTS / "DIST006"


@pytest.mark.parametrize("path", sick_scripts("DIST006"), ids=lambda path: path.stem)
def test_sick_script(path):
    patient = script_patient(path)
    [finding] = examine(BackendSlow, patient)
    assert finding.severity is Severity.WARNING
    assert "init_process_group(" in finding.span.text and "gloo" in finding.message
    [remedy] = prescribe(backend_slow, finding, patient)
    assert remedy.title.endswith('="nccl"')
    assert bool(remedy.edits) == (path.stem != "sick_option")


@pytest.mark.parametrize("path", healthy_scripts("DIST006"), ids=lambda path: path.stem)
def test_healthy_script(path):
    assert examine(BackendSlow, script_patient(path)) == []


def test_healthy_when_the_launch_line_says_nccl():
    assert examine(BackendSlow, script_patient(FOLDER / "sick_option.py", ["--backend", "nccl"])) == []
