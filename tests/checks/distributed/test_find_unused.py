import pytest
from mending import gone, mended
from scripts import PATIENTS, healthy_scripts, script_patient, sick_scripts

from gpudoctor.model import Severity
from gpudoctor.testing import examine, prescribe
from gpudoctor_checks.distributed.find_unused import FindUnused
from gpudoctor_rules.distributed.find_unused import FindUnusedRule

FOLDER = PATIENTS / "DIST007"


@pytest.mark.parametrize("path", sick_scripts("DIST007"), ids=lambda path: path.stem)
def test_sick_script(path):
    patient = script_patient(path)
    [finding] = examine(FindUnused, patient)
    assert finding.severity is Severity.NOTE
    [remedy] = prescribe(FindUnusedRule, finding, patient)
    assert remedy.title == "find_unused_parameters=False" and remedy.effect is None


@pytest.mark.parametrize("path", healthy_scripts("DIST007"), ids=lambda path: path.stem)
def test_healthy_script(path):
    assert examine(FindUnused, script_patient(path)) == []


@pytest.mark.parametrize("name", ["sick_resnet", "sick_own_network"])
def test_sick_edit_cures(name):
    text = (FOLDER / f"{name}.py").read_text("utf-8")
    assert gone("DIST007", text)
    assert "find_unused_parameters" not in mended(text, select="DIST007")
