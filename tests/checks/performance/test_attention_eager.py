import pytest
from configs import config_files, config_patient
from mending import gone
from scripts import PATIENTS, healthy_scripts, script_patient, sick_scripts

from gpudoctor.model import Applicability, Severity
from gpudoctor.testing import examine, make_gpu, prescribe
from gpudoctor_checks.performance.attention_eager import AttentionEager
from gpudoctor_rules.performance import attention_eager

FOLDER = PATIENTS / "PERF006"


@pytest.mark.parametrize("path", sick_scripts("PERF006"), ids=lambda path: path.stem)
def test_sick_script(path):
    patient = script_patient(path)
    [finding] = examine(AttentionEager, patient)
    assert finding.severity is Severity.NOTE
    [remedy] = prescribe(attention_eager, finding, patient)
    assert remedy.applicability is Applicability.UNSAFE
    assert remedy.edits


@pytest.mark.parametrize("path", healthy_scripts("PERF006"), ids=lambda path: path.stem)
def test_healthy_script(path):
    assert examine(AttentionEager, script_patient(path)) == []


@pytest.mark.parametrize("path", config_files("PERF006", "sick"), ids=lambda path: path.stem)
def test_sick_config(path):
    [finding] = examine(AttentionEager, config_patient(path, gpus=[make_gpu()]))
    assert finding.severity is Severity.NOTE
    [finding] = examine(AttentionEager, config_patient(path))
    assert finding.severity is Severity.NOTE
    assert gone("PERF006", path.read_text("utf-8"), path.name)


@pytest.mark.parametrize("path", config_files("PERF006", "healthy"), ids=lambda path: path.stem)
def test_healthy_config(path):
    assert examine(AttentionEager, config_patient(path)) == []


def test_sick_edit_cures():
    assert gone("PERF006", (FOLDER / "sick_from_pretrained.py").read_text("utf-8"))


def test_healthy_when_the_scores_are_wanted():
    text = (FOLDER / "sick_from_pretrained.py").read_text("utf-8") + "print(model.config.output_attentions)\n"
    assert examine(AttentionEager, script_patient(text)) == []
