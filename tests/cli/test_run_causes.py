"""Whole programs under `gpudoctor run` in which the first finding has to be the cause."""

import importlib.util
import json
import sys
import textwrap

import pytest
from command import gpudoctor
from probed import run_script

pytestmark = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")


def run_of(tmp_path, text, *words, **files):
    """What `run` found in a program: (code, severity, message) of each finding, the first cause first."""
    for name, content in {"main": text, **files}.items():
        (tmp_path / f"{name}.py").write_text(textwrap.dedent(content))
    out = tmp_path / "report.json"
    command = [sys.executable, str(tmp_path / "main.py"), *words]
    done = gpudoctor(
        "run", "--recording", str(tmp_path / "rec"), "--format", "json", "--output", str(out), "--", *command,
        cwd=tmp_path, timeout=120, trainings=1,
    )  # fmt: skip
    return findings(out, done)


def findings(out, done):
    """The same of the report that a command has written."""
    assert out.exists(), done.stderr
    found = json.loads(out.read_text())["findings"]
    return [(item["code"], item["severity"], item["message"]) for item in found]


TWO_RANKS = """
import time
import torch, torch.distributed as dist
from torch import nn

class Centred(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(16, 1)
        self.register_buffer("mean", torch.zeros(16))

    def forward(self, x):
        self.mean.mul_(0.9).add_(x.mean(0), alpha=0.1)
        return self.inner(x - self.mean)

dist.init_process_group("gloo")
torch.manual_seed(dist.get_rank())
net = nn.parallel.DistributedDataParallel(Centred())
best = torch.optim.SGD(net.parameters(), 0.001)
for step in range(180):
    rows = torch.randn(8, 16)
    if dist.get_rank() == 1:
        time.sleep(0.01)  # late
    loss = net(rows).square().mean()
    best.zero_grad()
    loss.backward()
    best.step()
dist.destroy_process_group()
"""


def test_the_rank_that_is_late_is_found_although_the_other_waits_in_its_forward_pass(tmp_path):
    """DDP broadcasts the buffer before each forward pass. (A run over torchrun is in virtual_device/test_ranks.py.)"""
    run = run_script(tmp_path, TWO_RANKS, prefix="", ranks=2)
    out = tmp_path / "report.json"
    first, *_ = findings(out, gpudoctor("report", "--format", "json", "--output", str(out), str(run.folder)))
    assert first[:2] == ("DIST001", "warning")
    assert first[2].startswith("Rank 1 on ") and " is late by " in first[2]
    assert "the delay is in lines of its own (" in first[2]


GIVEN = """
import sys
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
torch.set_num_threads(1)
{settings}
rows = torch.randn(1600, 6)
net = nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, outputs))
best = torch.optim.Adam(net.parameters(), 1e-3)
for x, y in DataLoader(TensorDataset(rows, {labels}), batch_size=16, shuffle={shuffle}):
    loss = {loss}
    best.zero_grad()
    loss.backward()
    best.step()
"""
CROSS = {"settings": "outputs = 4", "labels": "rows[:, :4].argmax(1)", "shuffle": "True",
         "loss": "nn.functional.cross_entropy(net(x), y)"}  # fmt: skip
SQUARES = {"settings": "outputs = 1", "labels": "rows.sum(1)", "shuffle": "True",
           "loss": "nn.functional.mse_loss(net(x).squeeze(1), y)"}  # fmt: skip
SICK_LOSSES = {
    "LOOP012": [{**SQUARES, "loss": "(y - net(x)).square().mean()"}],
    "NUM011": [{**CROSS, "labels": "rows[:, :4].argmax(1).clamp(max=0)"}],
    "DATA013": [{**CROSS, "labels": "torch.arange(4).repeat_interleave(400)", "shuffle": "False"}],
}  # fmt: skip
WELL_LOSSES = [
    {**CROSS, "shuffle": "False"},
    # A contrastive loss: each row's own is the first.
    {**CROSS, "loss": "nn.functional.cross_entropy(net(x), torch.zeros(len(x), dtype=torch.long))"},
]
GIVES = {*SICK_LOSSES}


@pytest.mark.parametrize(("code", "parts"), [(code, parts) for code, every in SICK_LOSSES.items() for parts in every])
def test_what_a_loss_is_given_is_found(tmp_path, code, parts):
    found = run_of(tmp_path, GIVEN.format(**parts))
    assert [item for item, _, _ in found if item in GIVES] == [code]
    assert found[0][0] in (code, "NUM005")  # dead units have a finding of their own


@pytest.mark.parametrize("parts", WELL_LOSSES)
def test_what_a_healthy_loss_is_given_is_no_finding(tmp_path, parts):
    assert not GIVES & {code for code, _, _ in run_of(tmp_path, GIVEN.format(**parts))}


def test_a_label_that_the_loss_does_not_have_is_named(tmp_path):
    parts = {**CROSS, "labels": "rows[:, :4].argmax(1) + 1"}
    first, *_ = run_of(tmp_path, GIVEN.format(**parts))
    assert first[:2] == ("FAIL001", "error")
    assert "The labels reach from 1 to 4, and the loss has 4 classes (0 to 3)." in first[2]


def test_a_device_that_asserts_is_told_the_label_of_the_last_batch(tmp_path):
    """On a GPU the words of the exception say nothing of the label: the loader's batch in the host's memory does."""
    parts = {**CROSS, "labels": "rows[:, :4].argmax(1).index_fill(0, torch.tensor([900]), 7)", "shuffle": "False"}
    parts["loss"] = "nn.functional.cross_entropy(net(x), y) if y.max() < 4 else failed()"
    failed = "outputs = 4\ndef failed():\n    raise RuntimeError('CUDA error: device-side assert triggered')"
    first, *_ = run_of(tmp_path, GIVEN.format(**{**parts, "settings": failed}))
    assert first[:2] == ("FAIL003", "error")
    assert "The labels reach from 0 to 7, and the loss has 4 classes (0 to 3)." in first[2]
