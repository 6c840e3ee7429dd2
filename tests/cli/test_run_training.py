"""A real training under `gpudoctor run`: the same numbers, the same files, and a report; a full disk is no harm."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest
from command import gpudoctor
from probed import run_without
from sarif_schema import report_schema

pytestmark = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")

TRAIN = """
import random, sys, torch
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(3)
torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.Dropout(0.1), torch.nn.Linear(32, 2))
best = torch.optim.AdamW(model.parameters())
data = TensorDataset(torch.randn(480, 16), torch.randint(0, 2, (480,)))
for x, y in DataLoader(data, batch_size=4, shuffle=True):
    loss = torch.nn.functional.cross_entropy(model(x), y)
    best.zero_grad()
    loss.backward()
    best.step()
    if len(sys.argv) > 1 and sys.argv[1] == "die" and loss.item() < 0.7:
        raise ValueError("bad luck")
print(loss.item().hex(), torch.rand(1).item().hex(), random.random() is not None)
torch.save(model.state_dict(), "model.pt")
"""


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, bytes]:
    folder = tmp_path_factory.mktemp("plain")
    (folder / "train.py").write_text(TRAIN)
    return run_without(folder / "train.py").stdout, (folder / "model.pt").read_bytes()


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "train.py"
    path.write_text(TRAIN)
    return path


@pytest.mark.slow
def test_numbers_and_files_are_the_same_and_the_steps_are_counted(tmp_path, script, alone):
    said, saved = alone
    watched = tmp_path / "watched"
    watched.mkdir()
    out = tmp_path / "report.json"
    done = gpudoctor(
        "run", "--recording", str(tmp_path / "rec"), "--format", "json", "--output", str(out), "--select", "DATA001",
        "--", sys.executable, str(script), cwd=watched, trainings=1,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout == said
    assert [path.name for path in watched.iterdir()] == ["model.pt"]
    assert saved == (watched / "model.pt").read_bytes()
    report = json.loads(out.read_text())
    jsonschema.validate(report, report_schema())
    run = report["run"]
    assert (run["steps"], run["ranks"], run["marker"]) == (120, 1, "optimizer")
    assert run["step_seconds"]["mean"] > 0
    assert {"forward", "backward", "optimizer"} <= {name for name, share in run["phases"].items() if share > 0}


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root may mount")
def test_a_full_disk_costs_the_recording_only(tmp_path, script, alone):
    small = tmp_path / "small"
    small.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24k", "tmpfs", str(small)], check=False).returncode:
        pytest.skip("mounting is not allowed here")
    try:
        done = gpudoctor(
            "run", "--recording", str(small / "rec"), "--select", "DATA001", "--", sys.executable, str(script),
            cwd=tmp_path, trainings=1,
        )  # fmt: skip
    finally:
        subprocess.run(["umount", str(small)], check=False)
    assert done.returncode == 0
    assert done.stdout == alone[0]
    assert "gpudoctor ·" in done.stderr
