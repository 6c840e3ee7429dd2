import pytest
from mending import gone, mended
from scripts import PATIENTS, healthy_scripts, script_patient, sick_scripts

from gpudoctor.model import Applicability, Severity
from gpudoctor.testing import examine, prescribe
from gpudoctor_checks.observability.checkpoint_too_often import CheckpointTooOften
from gpudoctor_rules.advice import advice
from gpudoctor_rules.observability import checkpoint_too_often

FOLDER = PATIENTS / "OBS003"
GUILTY = {
    "sick_every_step": (11, 1, Severity.NOTE, "if step % 500 == 0:\n            torch.save("),
    "sick_option": (23, 5, Severity.NOTE, "default=500"),
    "sick_in_method": (12, 20, Severity.NOTE, "self.step % 500 == 0"),
}


@pytest.mark.parametrize("path", sick_scripts("OBS003"), ids=lambda path: path.stem)
def test_sick_script_and_its_cure(path):
    patient = script_patient(path)
    [finding] = examine(CheckpointTooOften, patient)
    line, period, severity, cure = GUILTY[path.stem]
    assert (finding.span.line, finding.detail.period, finding.severity) == (line, period, severity)
    assert (
        prescribe((checkpoint_too_often, *advice("observability")), finding, patient)[0].applicability
        is Applicability.UNSAFE
    )
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


CHANGES = """
import torch
from torch import nn
from torch.utils.data import DataLoader
net = nn.Linear(8, 2)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
per_epoch, epoch, last_epoch = len(data) // EPOCHS // 4, 0, -1
for index, (x, y) in enumerate(DataLoader(data, batch_size=4, shuffle=True)):
    if CONDITION:
        epoch = last_epoch = index // per_epoch
        torch.save(net.state_dict(), f"net-{epoch}.pt")
    opt.zero_grad()
    nn.functional.cross_entropy(net(x), y).backward()
    opt.step()
"""


@pytest.mark.parametrize("condition", ["epoch != index // per_epoch", "epoch != last_epoch"])
def test_healthy_when_something_changes(condition):
    patient = script_patient(CHANGES.replace("CONDITION", condition))
    assert examine(CheckpointTooOften, patient) == []
    equal = script_patient(CHANGES.replace("CONDITION", condition.replace("!=", "==")))
    assert len(examine(CheckpointTooOften, equal)) == 1


LIBRARY = """
import torch
from torch import nn
class Fitting:
    def __init__(self, model, loader, save_every=1):
        self.model, self.loader, self.save_every = model, loader, save_every
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        self.step = 0
    def fit(self):
        for x, y in self.loader:
            self.optimizer.zero_grad()
            nn.functional.cross_entropy(self.model(x), y).backward()
            self.optimizer.step()
            self.step += 1
            if self.step % self.save_every == 0:
                torch.save(self.model.state_dict(), "last.pt")
"""


def test_healthy_a_period_that_any_caller_may_give():
    assert examine(CheckpointTooOften, script_patient(LIBRARY)) == []


def test_sick_a_period_that_the_caller_leaves_at_its_default():
    assert len(examine(CheckpointTooOften, script_patient(LIBRARY + "Fitting(net, loader).fit()\n"))) == 1
