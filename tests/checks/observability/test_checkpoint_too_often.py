from scripts import PATIENTS, script_patient

from gpudoctor.model import Severity
from gpudoctor.testing import examine
from gpudoctor_checks.observability.checkpoint_too_often import CheckpointTooOften

FOLDER = PATIENTS / "OBS003"


def test_sick_at_the_users_threshold():
    patient = script_patient(FOLDER / "healthy_epochs.py")
    [finding] = examine(CheckpointTooOften, patient, save_period=2000)
    assert finding.severity is Severity.NOTE


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
