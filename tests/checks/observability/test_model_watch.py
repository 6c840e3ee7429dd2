import pytest
from configs import config_patient
from scripts import script_patient

from gpudoctor.model import Severity
from gpudoctor.testing import examine, prescribe
from gpudoctor_checks.observability.model_watch import ModelWatch
from gpudoctor_rules.advice import advice
from gpudoctor_rules.observability import model_watch

CONFIG = """
    training:
      batch_size: 32
      max_steps: 10000
      learning_rate: 1.0e-4
    monitor:
      watch_freq: 10
"""


@pytest.mark.parametrize(
    ("call", "severity"),
    [
        ("wandb.watch(model, log='all', log_freq=99)", Severity.WARNING),
        ("wandb.watch(model, log_freq=50)", Severity.WARNING),
        ("run.watch(model, None, 'parameters', 1)", Severity.WARNING),
        ("WandbLogger().watch(model, log_freq=1)", Severity.WARNING),
    ],
)
def test_sick_calls(call, severity):
    head = "import wandb, torch\nfrom lightning.pytorch.loggers import WandbLogger\nrun = wandb.init()\n"
    patient = script_patient(f"{head}model = torch.nn.Linear(8, 1)\n{call}\n")
    [finding] = examine(ModelWatch, patient)
    assert finding.severity is severity
    # A keyword beside the positional argument that it names would be a TypeError.
    assert bool(prescribe((model_watch, *advice("observability")), finding, patient)[0].edits) == (", 1)" not in call)


def test_sick_config_and_its_cure():
    patient = config_patient(CONFIG)
    [finding] = examine(ModelWatch, patient)
    assert (finding.detail.period, finding.severity) == (10, Severity.WARNING)
    [edit] = prescribe((model_watch, *advice("observability")), finding, patient)[0].edits
    assert (edit.expected, edit.new_text) == ("10", "1000")


def test_healthy_config():
    assert examine(ModelWatch, config_patient(CONFIG.replace("10\n", "500\n"))) == []
