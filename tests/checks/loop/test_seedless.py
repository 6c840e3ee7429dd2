import pytest
from scripts import script_patient

from gpudoctor.testing import examine
from gpudoctor_checks.loop.seedless import Seedless

STEPS = """
    def {train}(self, net):
        net.train()
        for x in self.batches:
            net(x).sum().backward()
            self.optimizer.step()
"""
LIBRARY = "import torch\nclass Runner:" + STEPS.format(train="train")


@pytest.mark.parametrize(
    ("more", "notes"),
    [
        ("", 0),
        ("\nclass Other(Runner):\n    def __init__(self):\n        super(Runner, self).__init__()\n", 0),
        ("\nRunner().train(torch.nn.Linear(2, 2))\n", 1),
        ("\nclass Other(Runner): ...\nOther().train(torch.nn.Linear(2, 2))\n", 1),
        ("\nKINDS = {'plain': Runner}\nKINDS['plain']().train(torch.nn.Linear(2, 2))\n", 1),
    ],
)
def test_a_class_that_nothing_here_uses_starts_no_training(more, notes):
    assert len(examine(Seedless, script_patient(LIBRARY + more))) == notes


def test_healthy_a_module_of_lightning_that_the_program_only_evaluates():
    text = """
import torch
import lightning
class Digits(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Linear(8, 8)
    def training_step(self, batch, index):
        return self.net(batch).sum()
model = Digits().eval()
with torch.no_grad():
    for batch in torch.utils.data.DataLoader(torch.load("rows.pt")):
        print(model.net(batch).sum())
"""
    assert examine(Seedless, script_patient(text)) == []
    assert len(examine(Seedless, script_patient(text + "lightning.Trainer().fit(model)\n"))) == 1
