"""The helper that examines a mended copy sees what is wrong with an edit; and edits that it has found wrong."""

import json

import pytest
from command import gpudoctor
from cures import failures
from scripts import script_patient

from gpudoctor.model import Applicability, Effort, Remedy, TextEdit
from gpudoctor.testing import examine, prescribe
from gpudoctor_checks.observability.model_watch import ModelWatch
from gpudoctor_checks.sync.host_sync_in_loop import HostSyncInLoop
from gpudoctor_rules.sync import host_sync_in_loop


def written(path, line, old, new):
    return Remedy(
        id="X-y",
        title="t",
        steps=("s",),
        applicability=Applicability.SAFE,
        effort=Effort.ONE_LINE,
        edits=(
            TextEdit(path=path, line=line, column=1, end_line=line, end_column=1 + len(old), new_text=new,
                     expected=old),
        ),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("new", "problem"),
    [
        ("wandb.watch(model, log_freq=10)  # mended", "still found"),
        ("wandb.watch(net, log_freq=1000)", "reads net, which nothing binds"),
        ("wandb.watch(", "would not parse"),
    ],
)
def test_an_edit_that_does_not_cure_is_seen(new, problem):
    old = "wandb.watch(model, log_freq=10)"
    patient = script_patient(f"import torch, wandb\nmodel = torch.nn.Linear(8, 1)\n{old}\n")
    [finding] = list(ModelWatch({}).examine(patient))
    [script] = patient.source.scripts
    [first, *_] = failures(ModelWatch, patient, finding, written(script.path, 3, old, new))
    assert problem in first


def test_a_notebook_gets_steps_and_no_edits(tmp_path):
    cell = "import torch, wandb\nmodel = torch.nn.Linear(8, 1)\nwandb.watch(model, log_freq=10)\n"
    book = {"cells": [{"cell_type": "code", "source": cell.splitlines(keepends=True), "metadata": {}, "outputs": []}],
            "metadata": {}, "nbformat": 4, "nbformat_minor": 5}  # fmt: skip
    (tmp_path / "a.ipynb").write_text(json.dumps(book), encoding="utf-8")
    done = gpudoctor("check", "a.ipynb", "--select", "OBS006", "--format", "json", cwd=tmp_path)
    [finding] = json.loads(done.stdout)["findings"]
    assert [(item["edits"], item["patch"], item["applicability"]) for item in finding["remedies"]] == [
        ([], None, "display-only")
    ] * len(finding["remedies"])


STEP = """
import torch
device = torch.device("cuda")
model = torch.nn.Linear(8, 1).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = torch.utils.data.DataLoader(torch.randn(100000, 8), num_workers=4)
for step, x in enumerate(loader):
    loss = model(x.to(device)).mean()
    {read}
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("read", "remedy"),
    [
        ("print(loss.item())", "SYNC001-every"),
        ("high = loss.item()\n    if high > 3:\n        print('high')", "SYNC001-every"),
        ("high = loss.item()\n    if high > 3:\n        continue", "SYNC001-device"),
        ("if loss.item() > 3:\n        loss = loss * 0.1", "SYNC001-device"),
        ("# the pool must be idle before it is filled again\n    seen = loss.item()", "SYNC001-device"),
    ],
)
def test_a_read_that_the_step_goes_by_is_not_made_seldom(read, remedy):
    patient = script_patient(STEP.format(read=read))
    [finding] = examine(HostSyncInLoop, patient)
    assert [item.id for item in prescribe(host_sync_in_loop, finding, patient)] == [remedy]
