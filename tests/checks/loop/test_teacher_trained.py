import ast

import pytest
from mending import gone, mended
from scripts import healthy_scripts, script_patient, sick_scripts
from some import some

from gpudoctor.model import Applicability, Confidence, Severity
from gpudoctor.testing import examine, prescribe
from gpudoctor_checks.loop.teacher_trained import TeacherTrained
from gpudoctor_rules.loop.teacher_trained import TeacherTrainedRule

GUILTY = {
    "sick_distill": {"graph": "teacher_logits = teacher(x)", "mode": "teacher = Net(1024)"},
    "sick_class": {"graph": "target = self.teacher_model(images)"},
}


def test_every_script_is_named():
    assert {path.stem for path in sick_scripts("LOOP011")} == set(GUILTY)


@pytest.mark.parametrize("path", sick_scripts("LOOP011"), ids=lambda path: path.stem)
def test_sick_scripts(path):
    found = examine(TeacherTrained, script_patient(path))
    assert {item.fact("how"): item.span.text for item in found} == GUILTY[path.stem]
    assert {(item.severity, item.confidence) for item in found} == {(Severity.WARNING, Confidence.SUSPECTED)}


@pytest.mark.parametrize("path", healthy_scripts("LOOP011"), ids=lambda path: path.stem)
def test_healthy_scripts(path):
    assert examine(TeacherTrained, script_patient(path)) == []


@pytest.mark.parametrize("path", sick_scripts("LOOP011"), ids=lambda path: path.stem)
def test_the_rule(path):
    patient = script_patient(path)
    for finding in some(examine(TeacherTrained, patient)):
        [remedy] = prescribe(TeacherTrainedRule, finding, patient)
        free = finding.fact("how") == "graph" and path.stem == "sick_distill"
        assert (remedy.applicability is Applicability.SAFE) == free
        assert remedy.edits


@pytest.mark.parametrize("path", sick_scripts("LOOP011"), ids=lambda path: path.stem)
def test_the_edit_cures(path):
    text = path.read_text(encoding="utf-8")
    assert gone("LOOP011", text)
    new = mended(text, select="LOOP011")
    ast.parse(new)
    assert "with torch.no_grad():" in new
    assert mended(new, select="LOOP011") == new


OWNED = """
    import copy
    import torch

    class Pair(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.student = torch.nn.Linear(8, 4)
            self.teacher_part = {made}

        def both(self, x):
            return self.student(x), self.teacher_part(x)

    pair = Pair()
    optimizer = torch.optim.SGD({given}.parameters(), lr=0.1)
    for x in torch.utils.data.DataLoader(torch.randn(1000, 8)):
        ours, theirs = pair.both(x)
        optimizer.zero_grad()
        (ours - theirs).pow(2).mean().backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("made", "given", "found"),
    [
        ("torch.nn.Linear(8, 4)", "pair", 0),
        ("torch.nn.Linear(8, 4)", "pair.student", 1),
        ("copy.deepcopy(self.student)", "pair", 1),
    ],
    ids=["healthy", "sick-held-by-none", "sick-copied"],
)
def test_a_new_teacher_of_a_trained_module_learns_with_it(made, given, found):
    text = OWNED.format(made=made, given=given)
    assert len([f for f in examine(TeacherTrained, script_patient(text)) if f.fact("how") == "graph"]) == found
