import pytest
from mending import gone, mended
from scripts import PATIENTS, healthy_scripts, script_patient, sick_scripts

from gpudoctor.model import Applicability, Severity
from gpudoctor.testing import examine, prescribe
from gpudoctor_checks.sync.explicit_synchronize import ExplicitSynchronize
from gpudoctor_rules.sync import explicit_synchronize

FOLDER = PATIENTS / "SYNC003"


@pytest.mark.parametrize("path", sick_scripts("SYNC003"), ids=lambda path: path.stem)
def test_sick_script_and_its_cure(path):
    assert len(examine(ExplicitSynchronize, script_patient(path))) == 1
    assert gone("SYNC003", path.read_text("utf-8"))


@pytest.mark.parametrize("path", healthy_scripts("SYNC003"), ids=lambda path: path.stem)
def test_healthy_script(path):
    assert examine(ExplicitSynchronize, script_patient(path)) == []


def test_sick_once_a_step_is_a_note_and_the_line_goes():
    path = FOLDER / "sick_every_step.py"
    patient = script_patient(path)
    [finding] = examine(ExplicitSynchronize, patient)
    assert finding.severity is Severity.NOTE
    assert finding.span.line == 14
    [remedy] = prescribe(explicit_synchronize, finding, patient)
    assert remedy.applicability is Applicability.UNSAFE  # a copy that does not block may need the wait
    text = mended(path.read_text("utf-8"), select="SYNC003")
    assert "synchronize" not in text
    assert "optimizer.step()\n" in text


def test_sick_three_times_a_step_is_a_warning_and_clocks_make_the_edit_unsafe():
    path = FOLDER / "sick_timed_in_method.py"
    patient = script_patient(path)
    [finding] = examine(ExplicitSynchronize, patient)
    assert (finding.severity, finding.detail.waits) == (Severity.WARNING, 3.0)
    [remedy] = prescribe(explicit_synchronize, finding, patient)
    assert remedy.applicability is Applicability.UNSAFE
    assert any("enable_timing" in step for step in remedy.steps)
    assert "synchronize()" in mended(path.read_text("utf-8"), unsafe=False, select="SYNC003")


def test_sick_at_the_users_threshold():
    patient = script_patient(FOLDER / "healthy_period.py")
    assert len(examine(ExplicitSynchronize, patient, period=200)) == 1
    assert len(examine(ExplicitSynchronize, script_patient(FOLDER / "healthy_measurement.py"), measurement_steps=5))
