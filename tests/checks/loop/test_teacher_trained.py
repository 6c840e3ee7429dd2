import pytest
from scripts import healthy_scripts, script_patient, sick_scripts
from some import some

from gpudoctor.model import Applicability, Confidence, Severity
from gpudoctor.testing import examine, prescribe
from gpudoctor_checks.loop.teacher_trained import TeacherTrained
from gpudoctor_rules.loop import teacher_trained

GUILTY = {
    "sick_distill": {"graph": "teacher_logits = teacher(x)", "mode": "teacher = Net(1024)"},
    "sick_class": {"graph": "target = self.teacher_model(images)"},
}


def test_every_script_is_named():
    assert {path.stem for path in sick_scripts("LOOP011")} == set(GUILTY)


@pytest.mark.parametrize("path", sick_scripts("LOOP011"), ids=lambda path: path.stem)
def test_sick_scripts(path):
    found = examine(TeacherTrained, script_patient(path))
    assert {item.detail.how: item.span.text for item in found} == GUILTY[path.stem]
    assert {(item.severity, item.confidence) for item in found} == {(Severity.NOTE, Confidence.SUSPECTED)}


@pytest.mark.parametrize("path", healthy_scripts("LOOP011"), ids=lambda path: path.stem)
def test_healthy_scripts(path):
    assert examine(TeacherTrained, script_patient(path)) == []


@pytest.mark.parametrize("path", sick_scripts("LOOP011"), ids=lambda path: path.stem)
def test_the_rule(path):
    patient = script_patient(path)
    for finding in some(examine(TeacherTrained, patient)):
        [remedy] = prescribe(teacher_trained, finding, patient)
        # Gradients may flow through a teacher: what cuts them is written by hand.
        by_hand = finding.detail.how == "graph"
        assert remedy.applicability is (Applicability.DISPLAY_ONLY if by_hand else Applicability.UNSAFE)
        assert bool(remedy.edits) is not by_hand


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
    assert len([f for f in examine(TeacherTrained, script_patient(text)) if f.detail.how == "graph"]) == found


FOLLOWER = """
    import copy
    import torch

    def follow(slow, fast, share=0.01):
        for old, new in zip(slow.parameters(), fast.parameters()):
            old.data.mul_(1 - share).add_(new.data, alpha=share)

    class Views(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.fast = torch.nn.Linear(8, 4)
            self.slow = copy.deepcopy(self.fast)
            self.guess = torch.nn.Linear(4, 4)

        def forward(self, one, two):
            ours = self.guess(self.fast(one))
            theirs = self.slow(two)
            theirs = theirs / theirs.norm()
            return (ours - theirs).pow(2).mean()

    views = Views()
    rule = torch.optim.Adam(views.parameters())
    for x in torch.utils.data.DataLoader(torch.randn(1000, 8)):
        loss = views(x, x + 0.1)
        rule.zero_grad()
        loss.backward()
        rule.step()
        follow(views.slow, views.fast)
"""


def graphs(text):
    return [item for item in examine(TeacherTrained, script_patient(text)) if item.detail.how == "graph"]


def test_sick_an_average_that_the_loss_trains():
    [finding] = graphs(FOLLOWER)
    assert finding.span.text == "theirs = self.slow(two)" and "weights from fast" in finding.message
    assert finding.cost.breaks and prescribe(teacher_trained, finding, script_patient(FOLLOWER))
    assigned = FOLLOWER.replace("old.data.mul_(1 - share).add_(new.data, alpha=share)",
                                "old.data = old.data * (1 - share) + share * new.data")  # fmt: skip
    assert graphs(assigned)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("theirs = self.slow(two)", "theirs = self.slow(two).detach()"),
        ("theirs / theirs.norm()", "(theirs / theirs.norm()).detach()"),
        ("ours - theirs)", "ours - theirs.detach())"),
        ("theirs = self.slow(two)", "with torch.no_grad():\n                theirs = self.slow(two)"),
        ("copy.deepcopy(self.fast)", "copy.deepcopy(self.fast).requires_grad_(False)"),
        ("            self.guess =", "            for one in self.slow.parameters():\n"
         "                one.requires_grad = False\n            self.guess ="),
        ("ours - theirs)", "ours - one)"),  # the average is looked at, and not learned from
        ("        follow(views.slow, views.fast)\n", ""),  # a second branch that is trained
        ("old.data.mul_(1 - share).add_(new.data, alpha=share)", "old.data.copy_(new.data)"),
    ],
)  # fmt: skip
def test_healthy_an_average_out_of_the_graph(old, new):
    assert old in FOLLOWER
    assert graphs(FOLLOWER.replace(old, new)) == []
