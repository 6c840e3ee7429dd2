"""Runs that go on with a checkpoint: what of it they take up, and what nothing loads."""

from dataclasses import replace

import pytest
from packages import need
from probed import run_script

from gpudoctor.analysis.run.training.card import training_card
from gpudoctor.model import Severity
from gpudoctor.model.signs.recording import RunEnd
from gpudoctor.testing import examine, make_patient, prescribe
from gpudoctor.vitals.recording.opening import open_recording
from gpudoctor_checks.training.resume_incomplete import ResumeIncomplete
from gpudoctor_rules.advice import advice

need("torch")

PROGRAM = """
import os, sys
kind, path = sys.argv[1:]
loader = DataLoader(data(80), batch_size=4, shuffle=True)
def make(model):
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    return optimizer, torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=80)
def train(model, optimizer, scheduler, epochs):
    for epoch in range(epochs):
        for i, (x, y) in enumerate(loader):
            if kind == "first" and epoch == 2 and i == 10:
                break
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
            scheduler.step()
model = net()
optimizer, scheduler = make(model)
if kind != "first":
    state = torch.load(path)
    weights = {"module." + key: value for key, value in state["model"].items()}
    if kind == "prefix":
        model.load_state_dict(weights, strict=False)
    elif kind == "head":
        model.load_state_dict({key: value for key, value in state["model"].items() if key[0] != "2"}, strict=False)
    else:
        model.load_state_dict(state["model"])
    if kind in ("full", "position", "schedule"):
        optimizer.load_state_dict(state["optimizer"])
    if kind in ("full", "position"):
        scheduler.load_state_dict(state["scheduler"])
    if kind == "schedule":
        scheduler = make(model)[1].__class__(optimizer, T_max=80)
train(model, optimizer, scheduler, {"first": 3, "position": 2}.get(kind, 1))
if kind == "tune":
    path += ".tuned"
torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "scheduler": scheduler.state_dict(),
            "epoch": 3}, path)
"""


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    folder = tmp_path_factory.mktemp("first")
    run_script(folder, PROGRAM, "first", str(folder / "last.pt"))
    return folder / "last.pt"


HEALTHY = [
    ("full", "weights 4 of 4 tensors, optimizer yes, schedule yes"),
    ("tune", "weights 4 of 4 tensors, optimizer only in the file, schedule only in the file"),
    ("head", "weights 2 of 2 tensors"),
]
SICK = [
    ("prefix", ["weights"], "weights 0 of 4 tensors"),
    ("weights", ["optimizer", "schedule"], "optimizer only in the file"),
    ("schedule", ["schedule"], "optimizer yes, schedule only in the file"),
    ("position", ["position"], "optimizer yes, schedule yes, position in the data no"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "said"), HEALTHY, ids=[case[0] for case in HEALTHY])
def test_healthy_resumes(tmp_path, checkpoint, kind, said):
    taken_up(tmp_path, checkpoint, kind, [], said)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "parts", "said"), SICK, ids=[case[0] for case in SICK])
def test_sick_resumes(tmp_path, checkpoint, kind, parts, said):
    taken_up(tmp_path, checkpoint, kind, parts, said)


def taken_up(tmp_path, checkpoint, kind, parts, said):
    path = tmp_path / "last.pt"
    path.write_bytes(checkpoint.read_bytes())
    if kind in ("head", "prefix"):  # it writes elsewhere: weights are what it is about
        path = path.rename(tmp_path / "base.pt")
    run = run_script(tmp_path, PROGRAM.replace('"tune"', '"tune" or "base" in path'), kind, str(path))
    recording = replace(open_recording(str(run.folder)), end=RunEnd(exit_code=0), memory={})
    assert not recording.ranks[0].of("lost")
    patient = make_patient(recording=recording)
    found = examine(ResumeIncomplete, patient)
    assert [item.detail.how for item in found] == parts
    assert all(prescribe(advice("training"), item, patient) for item in found)
    severity = {"weights": Severity.ERROR}
    assert all(item.severity is severity.get(item.detail.how, Severity.WARNING) for item in found)
    (line,) = [line for line in training_card(recording) if line.name == "resumed"]
    assert said in line.text and len(line.text) <= 110
