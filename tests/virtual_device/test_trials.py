"""A trial on an asynchronous device: no arm may seem faster than the device is."""

import shutil
import sys
from contextlib import nullcontext

import pytest
from forks import fork_trainings
from virtual import FOLDER, HEAD, extension

from gpudoctor.trial.trial_runner import Arm, Protection, TrialRunner
from gpudoctor.trial.window import fences

DEVICE = 6e-3
"""Seconds that the device needs for a step; the host launches one in less."""
LOOP = f"""
rows, labels = torch.randn(16, 32).to("vgpu"), torch.randint(0, 8, (16,)).to("vgpu")
vgpu.device.set_kernel(2e-6)
for step in range(400):
    opt.zero_grad()
    loss = nn.functional.cross_entropy(net(rows), labels)
    vgpu.device.work({DEVICE}, 0)
    loss.backward()
    opt.step()
    total = loss.item()
"""


@pytest.mark.slow
def test_an_arm_without_syncs_is_no_faster_than_its_device(tmp_path, monkeypatch):
    """Until its queue is full, for some 25 steps, the host runs ahead. Curing the read can give back a little."""
    script = tmp_path / "main.py"
    script.write_text(HEAD + LOOP)
    shutil.copy(FOLDER / "vgpu.py", tmp_path)
    bench = TrialRunner((sys.executable, str(script)), tmp_path, lambda _folder: nullcontext(Protection()))
    bench.skip, bench.steps = 10, 30
    environment = {"GPUDOCTOR_VIRTUAL_DEVICE": str(extension())}
    cured = tmp_path / "cured.py"
    cured.write_text(script.read_text().replace("total = loss.item()", "total = 0.0"))
    fork_trainings(monkeypatch, 2)
    sick = bench.lap(Arm(name="baseline", environment=environment))
    well = bench.lap(Arm(name="cured", environment=environment, command=(sys.executable, str(cured))))
    assert not sick.problem and not well.problem
    assert well.window.first in fences(10, 30)
    assert well.window.seconds >= 0.98 * DEVICE
    assert sick.window.seconds / well.window.seconds <= 1.02 * sick.window.seconds / DEVICE
