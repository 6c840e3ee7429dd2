import pytest
from scripts import healthy_scripts, script_patient, sick_scripts

from gpudoctor.model import Confidence, Severity
from gpudoctor.testing import examine
from gpudoctor_checks.loop.teacher_trained import TeacherTrained

GUILTY = {
    "sick_distill": {"teacher": "teacher_logits = teacher(x)"},
    "sick_class": {"self.teacher_model": "target = self.teacher_model(images)"},
}


def test_every_script_is_named():
    assert {path.stem for path in sick_scripts("LOOP011")} == set(GUILTY)


@pytest.mark.parametrize("path", sick_scripts("LOOP011"), ids=lambda path: path.stem)
def test_sick_scripts(path):
    found = examine(TeacherTrained, script_patient(path))
    assert {item.detail.teacher: item.span.text for item in found} == GUILTY[path.stem]
    assert {(item.severity, item.confidence) for item in found} == {(Severity.NOTE, Confidence.SUSPECTED)}


@pytest.mark.parametrize("path", healthy_scripts("LOOP011"), ids=lambda path: path.stem)
def test_healthy_scripts(path):
    assert examine(TeacherTrained, script_patient(path)) == []
