"""`gpudoctor verify` as a user calls it, on a program whose one ailment is a tenfold one."""

import json
import sys
from importlib.util import find_spec
from pathlib import Path

import jsonschema
import pytest
from command import gpudoctor

import gpudoctor as package

SICK = """
import gc
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(0)
torch.set_num_threads(1)
model = nn.Linear(8, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(TensorDataset(torch.randn(200, 8), torch.randint(0, 3, (200,))), batch_size=8)
kept = [[] for _ in range(300_000)]  # what a collection goes through, however little torch has
for epoch in range(1):
    for x, y in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        gc.collect()
torch.save(model.state_dict(), "model.pt")
print("trained")
"""


def verify(folder: Path, *words: str, trainings: int = 0):
    return gpudoctor(
        "verify", "--ignore", "ENV,GPU", "--quiet", *words, cwd=folder, timeout=300, trainings=trainings, XDG_STATE_HOME=str(folder / "state"),
    )  # fmt: skip


@pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed")
@pytest.mark.slow
def test_a_proven_remedy_is_kept_and_nothing_else_is_written(tmp_path):
    folder = tmp_path / "job"
    folder.mkdir()
    (folder / "train.py").write_text(SICK)
    out = tmp_path / "report.json"
    done = verify(
        folder, "--steps", "10", "--select", "SYNC002", "--keep", "--format", "json", "--output", str(out), "--",
        sys.executable, "train.py", trainings=24,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout == "trained\n"  # the first run is the user's to see, the others are silent
    report = json.loads(out.read_text())
    schema = json.loads((Path(package.__file__).parent / "report" / "report-1.schema.json").read_text())
    jsonschema.validate(report, schema)
    [finding] = report["findings"]
    proof = finding["remedies"][0]["proof"]
    assert (proof["verdict"], proof["loss"]) == ("faster", "identical")
    assert proof["ratio"] > 3 and proof["low"] > 1.02 and proof["pairs"] >= 3
    trial = report["trial"]
    [row] = trial["rows"]
    assert (row["name"], row["conclusion"], row["patch"]) == ("SYNC002-remove", "proven", True)
    assert trial["kept"] == ["train.py"] and "-        gc.collect()" in trial["patch"]
    assert Path(trial["patch_path"]).read_text() == trial["patch"]
    assert str(folder / "model.pt") in trial["kept_out"]
    assert report["summary"]["verdict"].startswith("Proven: ")
    assert sorted(path.name for path in folder.iterdir()) == ["state", "train.py"]
    assert "gc.collect()" not in (folder / "train.py").read_text()


@pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed")
@pytest.mark.slow
def test_what_is_trained_otherwise_is_shown_by_its_number_and_not_timed(tmp_path):
    program = SICK.replace("        gc.collect()\n", "        scheduler.step()\n").replace(
        "kept =", "scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=len(loader))\nkept ="
    )
    (tmp_path / "train.py").write_text(program.replace("range(1)", "range(4)"))
    out = tmp_path / "report.json"
    words = ("--select", "TRAIN008", "--unsafe", "--format", "json", "--output", str(out))
    done = verify(tmp_path, *words, "--", sys.executable, "train.py", trainings=2)
    report = json.loads(out.read_text())
    [row] = report["trial"]["rows"]
    assert (row["conclusion"], row["pairs"]) == ("cured", []), done.stderr
    assert "T_max=100" in report["trial"]["patch"]
    assert row["proof"]["cure"]["words"].startswith("schedule, last: ")


def test_a_command_that_dies_is_diagnosed_and_not_tried(tmp_path):
    done = verify(tmp_path, "--", sys.executable, "-c", "import sys; print('out'); sys.exit(3)")
    assert (done.returncode, done.stdout) == (3, "out\n")
    assert "No rank reported" in done.stderr
    assert "baseline" not in done.stderr


def test_usage(tmp_path):
    for words, said in (
        ((), "gpudoctor verify -- python train.py"),
        (("--budget", "soon", "--", "x"), "--budget"),
        (("--no-such-flag", "--", "x"), "--no-such-flag"),
    ):
        done = verify(tmp_path, *words)
        assert (done.returncode, said in done.stderr) == (2, True), done.stderr
    missing = verify(tmp_path, "--", "no-such-command")
    assert (missing.returncode, missing.stderr) == (127, "gpudoctor: no-such-command: command not found\n")
