"""What the probe must not do to a job on an asynchronous device: die in forked workers, break a capture, add work."""

import pytest
from virtual import HEAD, program, run_unwatched, run_virtual

FORKS = """
class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return 320
    def __getitem__(self, index):
        return torch.randn(32), index % 8

loader = torch.utils.data.DataLoader(Rows(), batch_size=16, num_workers=1, multiprocessing_context="fork")
truth.begin()
for epoch in range(3):
    for x, y in loader:
        loss = nn.functional.cross_entropy(net(x.to("vgpu")), y.to("vgpu"))
        opt.zero_grad()
        loss.backward()
        opt.step()
vgpu.tell(truth.end(60))
"""
"""The workers of the second epoch are forked when the probe has pinned memory and events on their way."""


def losses(report):
    return [item["code"] for item in report["findings"] if item["severity"] == "error"]


@pytest.mark.slow
def test_forked_workers_of_later_epochs_live(tmp_path):
    report, _ = run_virtual(tmp_path, f"{HEAD}\nvgpu.device.set_kernel(2e-5)\n{FORKS}")
    assert report["run"]["steps"] == 60
    assert losses(report) == []


CAPTURE = """\
    if step in (44, 90):
        torch.accelerator.synchronize()
        vgpu.device.set_capturing(True)
    if step in (46, 92):
        vgpu.device.set_capturing(False)
"""


@pytest.mark.slow
def test_nothing_of_ours_gets_into_a_capture(tmp_path):
    """Steps are captured, among them those in which all gradients are read: the graph has what it has without us.

    There an event that is recorded or asked, or pinned memory, is an error.
    """
    draw = "    x, y = batch()"
    report, watched = run_virtual(tmp_path, program(kernel=2e-5, steps=120).replace(draw, CAPTURE + draw))
    alone = run_unwatched(tmp_path)
    assert watched["captured"] == alone["captured"] > 0
    assert report["run"]["steps"] == 120
    assert not [said for said in report["problems"] + report["remarks"] if "our hook" in said]


@pytest.mark.slow
@pytest.mark.parametrize("kernel", [2e-5])
def test_what_the_probe_adds_to_a_step_stays_in_its_budget(tmp_path, kernel):
    text = program(kernel=kernel, steps=600, begin=400)
    _, watched = run_virtual(tmp_path, text)
    alone = run_unwatched(tmp_path)
    assert watched["launches"] <= alone["launches"] * 1.15
    assert watched["copies"] <= alone["copies"] + 0.1
    assert watched["syncs"] <= alone["syncs"] + 0.01
