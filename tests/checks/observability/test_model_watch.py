import pytest
from configs import config_patient
from mending import gone, mended
from scripts import PATIENTS, healthy_scripts, script_patient, sick_scripts

from gpudoctor.model import Applicability, Severity
from gpudoctor.testing import examine, prescribe
from gpudoctor_checks.observability.model_watch import ModelWatch
from gpudoctor_rules.advice import advice
from gpudoctor_rules.observability import model_watch

FOLDER = PATIENTS / "OBS006"
GUILTY = {
    "sick_watch_all": (6, Severity.WARNING, 'log="gradients", log_freq=1000'),
    "sick_histograms": (15, Severity.WARNING, "if step % 1000 == 0:\n            for name, parameter in"),
    "sick_wandb_histogram_period": (6, Severity.WARNING, "if step % 1000 == 0:"),
}
CONFIG = """
    training:
      batch_size: 32
      max_steps: 10000
      learning_rate: 1.0e-4
    monitor:
      watch_freq: 10
"""


@pytest.mark.parametrize("path", sick_scripts("OBS006"), ids=lambda path: path.stem)
def test_sick_script_and_its_cure(path):
    patient = script_patient(path)
    [finding] = examine(ModelWatch, patient)
    line, severity, cure = GUILTY[path.stem]
    assert (finding.span.line, finding.severity) == (line, severity)
    own = "histogram" in path.stem  # the program's own loop, which may do more than watch
    able = Applicability.UNSAFE if own else Applicability.SAFE
    assert prescribe((model_watch, *advice("observability")), finding, patient)[0].applicability is able
    text = path.read_text("utf-8")
    assert cure in mended(text, unsafe=own, select="OBS006")
    assert gone("OBS006", text)


@pytest.mark.parametrize("path", healthy_scripts("OBS006"), ids=lambda path: path.stem)
def test_healthy_script(path):
    assert examine(ModelWatch, script_patient(path)) == []


@pytest.mark.parametrize(
    ("call", "severity"),
    [
        ("wandb.watch(model, log='all')", Severity.NOTE),
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


def test_sick_at_the_users_threshold():
    assert len(examine(ModelWatch, script_patient(FOLDER / "healthy_defaults.py"), watch_period=501)) == 1
