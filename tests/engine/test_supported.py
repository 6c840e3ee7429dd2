"""Edits that write what the project's own torch may lack are not offered."""

import pytest
from scripts import read_script

from gpudoctor.engine.examination import Request, examine
from gpudoctor.engine.registry import load_registry
from gpudoctor.engine.selection import make_selection
from gpudoctor.model import Applicability, PatientKind
from gpudoctor.testing import make_packages, make_patient, make_torch
from gpudoctor.vitals.project import read_project_versions

SCALED = """import torch
from torch.utils.data import DataLoader
model = torch.nn.Linear(8, 1).cuda()
optimizer = torch.optim.SGD(model.parameters(), 0.1)
scaler = torch.cuda.amp.GradScaler()
for x, y in DataLoader(list(range(9)), pin_memory=True, num_workers=2):
    optimizer.zero_grad()
    with torch.cuda.amp.autocast():
        loss = model(x.cuda()).sum()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
"""


@pytest.fixture
def remedies(tmp_path):
    def prescribed(asked):
        (tmp_path / ".git").mkdir()
        (tmp_path / "requirements.txt").write_text(f"numpy\n{asked}\n")
        script = tmp_path / "train.py"
        script.write_text(SCALED)
        patient = make_patient(
            kind=PatientKind.SCRIPT,
            source=read_script(script),
            torch=make_torch("2.13.0+cpu"),
            packages=make_packages(torch="2.13.0+cpu"),
            project_versions=read_project_versions([str(script)]),
        )
        registry = load_registry()
        request = Request(registry=registry, selection=make_selection(registry, [("LOOP005", "--select")], []))
        found = examine(patient, request).findings
        return {item.finding.detail.what: item.remedies[0] for item in found}

    return prescribed


@pytest.mark.parametrize("asked", ["torch>=1.13", "torch<3,>=1.12", "torch~=2.0"])
def test_sick_a_name_that_an_admitted_release_lacks_is_not_written(remedies, asked):
    remedy = remedies(asked)["torch.cuda.amp.GradScaler()"]
    assert not remedy.edits
    assert remedy.applicability is Applicability.DISPLAY_ONLY
    assert remedy.steps[-1].endswith(f"requirements.txt:2 asks for {asked}.")
    assert remedy.steps[-1].startswith("That needs torch 2.3, and ")


@pytest.mark.parametrize("asked", ["torch", "torch>=2.3", "torch!=2.0.0", "torch<9", "torchvision>=0.9"])
def test_healthy_a_project_that_names_no_older_release(remedies, asked):
    assert remedies(asked)["torch.cuda.amp.GradScaler()"].edits
