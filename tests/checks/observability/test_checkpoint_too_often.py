import pytest
from mending import gone, mended
from scripts import PATIENTS, healthy_scripts, script_patient, sick_scripts

from gpudoctor.model import Applicability, Severity
from gpudoctor.testing import examine, prescribe
from gpudoctor_checks.observability.checkpoint_too_often import CheckpointTooOften
from gpudoctor_rules.observability.checkpoint_too_often import CheckpointTooOftenRule

FOLDER = PATIENTS / "OBS003"
GUILTY = {
    "sick_every_step": (11, 1, Severity.WARNING, "if step % 500 == 0:\n            torch.save("),
    "sick_option": (23, 5, Severity.WARNING, "default=500"),
    "sick_in_method": (12, 20, Severity.NOTE, "self.step % 500 == 0"),
}


@pytest.mark.parametrize("path", sick_scripts("OBS003"), ids=lambda path: path.stem)
def test_sick_script_and_its_cure(path):
    patient = script_patient(path)
    [finding] = examine(CheckpointTooOften, patient)
    line, period, severity, cure = GUILTY[path.stem]
    assert (finding.span.line, finding.fact("period"), finding.severity) == (line, period, severity)
    assert prescribe(CheckpointTooOftenRule, finding, patient)[0].applicability is Applicability.UNSAFE
    text = path.read_text("utf-8")
    assert cure in mended(text, select="OBS003")
    assert gone("OBS003", text)


@pytest.mark.parametrize("path", healthy_scripts("OBS003"), ids=lambda path: path.stem)
def test_healthy_script(path):
    assert examine(CheckpointTooOften, script_patient(path)) == []


def test_sick_at_the_users_threshold():
    patient = script_patient(FOLDER / "healthy_epochs.py")
    [finding] = examine(CheckpointTooOften, patient, save_period=2000)
    assert finding.severity is Severity.NOTE
    patient = script_patient(FOLDER / "healthy_full_batch.py")
    assert len(examine(CheckpointTooOften, patient, occasions=4)) == 1


def test_an_option_is_named():
    patient = script_patient(FOLDER / "sick_option.py")
    [finding] = examine(CheckpointTooOften, patient)
    every, later = prescribe(CheckpointTooOftenRule, finding, patient)
    assert every.title == "save every 500 steps (--save-every 500)"
    assert later.id == "OBS003-async"
    patient = script_patient(FOLDER / "sick_option.py", arguments=["--save-every", "1000"])
    assert examine(CheckpointTooOften, patient) == []
