import pytest
from scripts import PATIENTS, script_patient

from gpudoctor.model import Severity
from gpudoctor.model.signs.packages import TorchBuild
from gpudoctor.testing import examine, make_packages
from gpudoctor.vitals.project import read_project_versions
from gpudoctor_checks.loop.deprecated_api import DeprecatedApi

FOLDER = PATIENTS / "LOOP005"


def build(version):
    return TorchBuild(version=version, cuda="12.8", hip=None, arch_list=(), cxx11_abi=True, path="torch")


def found(script, version=None, **signs):
    torch = build(version) if version else None
    return {
        finding.detail.what: finding
        for finding in examine(DeprecatedApi, script_patient(FOLDER / script, torch=torch, **signs))
    }


@pytest.mark.parametrize(
    ("version", "severity"), [("2.13.0+cpu", Severity.ERROR), ("2.6.0", Severity.NOTE), (None, Severity.NOTE)]
)
def test_sick_removed_argument_depends_on_the_installed_torch(version, severity):
    what = "verbose= of torch.optim.lr_scheduler.ReduceLROnPlateau"
    finding = found("sick_removed.py", version)[what]
    assert finding.severity is severity
    assert (finding.cost.breaks is not None) == (severity is Severity.ERROR)


@pytest.mark.parametrize(
    ("text", "version", "severities"),
    [
        ("from transformers import AdamW as Adam\nAdam(model.parameters())", "4.51.3", [Severity.ERROR]),
        ("import transformers\ntransformers.AdamW(model.parameters())", "4.40.0", [Severity.NOTE]),
        ("from transformers import TrainingArguments as T\nT('o', optim='adamw_hf')", "4.51.3", [Severity.ERROR]),
        ("from transformers import TrainingArguments as T\nT('o', optim='adamw_torch')", "4.51.3", []),
        ("from torch.optim import AdamW\nAdamW(model.parameters())", "4.51.3", []),
        ("try:\n    from transformers import AdamW\nexcept ImportError:\n    pass", "4.51.3", []),
    ],
)
def test_what_transformers_no_longer_has(text, version, severities):
    patient = script_patient(text + "\n", packages=make_packages(transformers=version))
    assert [item.severity for item in examine(DeprecatedApi, patient)] == severities


DRAWN = """
    import torch
    class Feeder:
        def __init__(self, loader):
            self.own = iter(loader)
        def next(self):
            return next(self.own)
    net = torch.nn.Linear(8, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    batches = iter(torch.utils.data.DataLoader(torch.randn(1000, 8), batch_size=16))
    for step in range(60):
        x = {draw}
        optimizer.zero_grad()
        loss = {loss}
        loss.backward()
        optimizer.step()
        if step % 10 == 0:
            print({shown})
"""
PLAIN = {"draw": "next(batches)", "loss": "net(x).square().mean()", "shown": "loss.item()"}


@pytest.mark.parametrize(
    ("changed", "version", "severities"),
    [
        ({}, "2.13.0", []),
        ({"draw": "batches.next()"}, "2.13.0", [Severity.ERROR]),
        ({"draw": "batches.next()"}, "1.12.1", []),
        ({"draw": "Feeder(batches).next()"}, "2.13.0", []),
    ],
)
def test_what_old_tutorials_write(changed, version, severities):
    patient = script_patient(DRAWN.format(**(PLAIN | changed)), torch=build(version))
    assert [item.severity for item in examine(DeprecatedApi, patient)] == severities


COMPANIONS = """
import numpy as np
import pandas as pd
import torch
import torchvision.transforms as T
from scipy.misc import imresize
frame, kept = pd.DataFrame(), []
average = torch.zeros(3)
{line}
"""


@pytest.mark.parametrize(
    ("line", "packages", "severities"),
    [
        ("x = np.zeros(3).astype(np.float)", {"numpy": "1.26.4"}, [Severity.ERROR]),
        ("x = np.zeros(3).astype(np.float)", {"numpy": "1.22.0"}, [Severity.NOTE]),
        ("x = np.zeros(3).astype(np.float)", {}, [Severity.NOTE]),
        ("x = np.zeros(3).astype(np.float64)", {"numpy": "2.4.0"}, []),
        ("x = np.zeros(3).astype(np.bool)", {"numpy": "2.4.0"}, []),
        ("try:\n    kind = np.float\nexcept AttributeError:\n    kind = float", {"numpy": "2.4.0"}, []),
        ("x, _ = np.histogram([3], normed=True)", {"numpy": "1.26.4"}, [Severity.ERROR]),
        ("frame = frame.append({'a': 3}, ignore_index=True)", {"pandas": "2.1.0"}, [Severity.ERROR]),
        ("kept.append({'a': 3})", {"pandas": "2.1.0"}, []),
        ("move = T.Scale(256)", {"torchvision": "0.21.0"}, [Severity.ERROR]),
        ("move = T.Resize(256)", {"torchvision": "0.21.0"}, []),
        ("average.mul_(0.9).add_(0.1, torch.ones(3))", {}, [Severity.NOTE]),
        ("average.mul_(0.9).add_(torch.ones(3), alpha=0.1)", {}, []),
    ],
)
def test_what_the_companions_of_torch_no_longer_have(line, packages, severities):
    text = COMPANIONS.replace("from scipy.misc import imresize\n", "").format(line=line)
    patient = script_patient(text, torch=build("2.13.0"), packages=make_packages(**packages))
    assert [item.severity for item in examine(DeprecatedApi, patient)] == severities


@pytest.mark.parametrize(
    ("required", "severities"),
    [("numpy", [Severity.WARNING]), ("numpy>=1.20", [Severity.WARNING]), ("scipy", [Severity.NOTE])],
)
def test_who_asks_for_a_package_without_a_bound_gets_the_newest(tmp_path, required, severities):
    (tmp_path / "requirements.txt").write_text(required + "\n")
    (tmp_path / "train.py").write_text("import numpy as np\nx = np.zeros(3).astype(np.float)\n")
    patient = script_patient(
        tmp_path / "train.py", project_versions=read_project_versions([str(tmp_path / "train.py")])
    )
    assert [item.severity for item in examine(DeprecatedApi, patient)] == severities
