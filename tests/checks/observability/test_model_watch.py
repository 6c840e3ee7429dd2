import pytest
from scripts import script_patient

from gpudoctor.model import Severity
from gpudoctor.testing import examine
from gpudoctor_checks.observability.model_watch import ModelWatch


@pytest.mark.parametrize(
    "call",
    [
        "wandb.watch(model, log='all', log_freq=99)",
        "run.watch(model, None, 'parameters', 1)",
        "WandbLogger().watch(model, log_freq=1)",
    ],
)
def test_sick_calls(call):
    head = "import wandb, torch\nfrom lightning.pytorch.loggers import WandbLogger\nrun = wandb.init()\n"
    patient = script_patient(f"{head}model = torch.nn.Linear(8, 1)\n{call}\n")
    [finding] = examine(ModelWatch, patient)
    assert finding.severity is Severity.WARNING
