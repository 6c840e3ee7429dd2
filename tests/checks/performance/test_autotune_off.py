import pytest
from mending import mended
from scripts import PATIENTS, healthy_scripts, script_patient, sick_scripts

from gpudoctor.model import Applicability, Severity
from gpudoctor.testing import examine, prescribe
from gpudoctor_checks.performance.autotune_off import AutotuneOff
from gpudoctor_rules.performance import autotune_off

FOLDER = PATIENTS / "PERF010"


@pytest.mark.parametrize("path", sick_scripts("PERF010"), ids=lambda path: path.stem)
def test_sick_script(path):
    patient = script_patient(path)
    [finding] = examine(AutotuneOff, patient)
    assert finding.severity is Severity.NOTE
    [remedy] = prescribe(autotune_off, finding, patient)
    assert remedy.title == "torch.backends.cudnn.benchmark = True"
    assert remedy.applicability is Applicability.UNSAFE


@pytest.mark.parametrize("path", healthy_scripts("PERF010"), ids=lambda path: path.stem)
def test_healthy_script(path):
    assert examine(AutotuneOff, script_patient(path)) == []


def test_sick_without_torch_imported():
    text = (FOLDER / "sick_resnet.py").read_text("utf-8")
    text = text.replace("import torch\n", "from torch import device, optim, utils\n")
    text = text.replace("torch.device", "device").replace("torch.utils", "utils").replace("torch.optim", "optim")
    after = mended(text, select="PERF010")
    assert "import torch\n" in after and after.count("cudnn.benchmark = True") == 1
