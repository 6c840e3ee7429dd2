"""What `run` says of jobs on an asynchronous device, beside what the device knows to be true."""

import pytest
from virtual import program, run_virtual

TOLERANCE = 0.08
"""Share of a step by which a claim may miss: the truth is of other steps than those that were watched."""


def codes(report, *severities):
    wanted = severities or ("error", "warning")
    return [item["code"] for item in report["findings"] if item["severity"] in wanted]


def claims(report):
    """Shares of a step that findings promise to give back."""
    return {item["code"]: item["cost"]["step_share"] or 0.0 for item in report["findings"]}


def idle(truth):
    return 1 - truth["busy"]


def test_a_device_that_is_always_busy_has_nothing_to_gain(tmp_path):
    report, truth = run_virtual(tmp_path, program(kernel=4e-4))
    assert truth["busy"] > 0.9
    assert report["run"]["device_idle"] <= idle(truth) + TOLERANCE
    assert not [code for code in codes(report) if code.startswith(("SYNC", "DATA", "OBS", "PERF"))]


def test_reading_the_loss_is_worth_what_the_device_is_idle(tmp_path):
    """Sync is most of the host's time, and the device works through most of it."""
    report, truth = run_virtual(tmp_path, program(kernel=4e-4, after="total = loss.item()"))
    assert truth["busy"] > 0.7
    assert report["run"]["phases"]["sync"] > 0.5
    assert all(share <= idle(truth) + TOLERANCE for share in claims(report).values())
    [read] = [item for item in report["findings"] if item["code"] == "SYNC001"]
    assert "the device works meanwhile" in read["message"]


SLOW = """
import time
class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return 16 * 400
    def __getitem__(self, index):
        time.sleep(6e-4)
        return torch.randn(32), index % 8
batches = iter(torch.utils.data.DataLoader(Rows(), batch_size=16, num_workers=1))
def batch():
    x, y = next(batches)
    return x.to("vgpu"), y.to("vgpu")
"""


@pytest.mark.parametrize(("kernel", "starves"), [(2e-5, True), (1.2e-3, False)])
def test_a_slow_loader_counts_where_the_device_waits_for_it(tmp_path, kernel, starves):
    """The loader makes a batch in 10 ms; the device needs half a millisecond for it, or 20."""
    report, truth = run_virtual(tmp_path, program(kernel=kernel, batch=SLOW, steps=120))
    assert (idle(truth) > 0.5) is starves
    assert ("DATA001" in codes(report)) is starves
    assert all(share <= idle(truth) + TOLERANCE for share in claims(report).values())


@pytest.mark.parametrize(("kernel", "bound"), [(2e-6, True), (6e-4, False)])
def test_a_host_that_launches_too_slowly(tmp_path, kernel, bound):
    report, truth = run_virtual(tmp_path, program(kernel=kernel, steps=400))
    assert (idle(truth) > 0.5) is bound
    assert ("PERF011" in codes(report)) is bound
