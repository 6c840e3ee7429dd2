"""What `run` says of jobs on an asynchronous device, beside what the device knows to be true.

How busy a device is depends on the machine that plays it. So a scenario is run until the device's own truth has
the shape that it is about, and the report is held against that truth.
"""

import pytest
from virtual import program, run_until

TOLERANCE = 0.08
"""Share of a step by which a claim may miss: the truth is of other steps than those that were watched."""
STARVES, WORKS = 0.5, 0.08
"""The device is idle for more than the one, or for less than the other."""


def codes(report, *severities):
    wanted = severities or ("error", "warning")
    return [item["code"] for item in report["findings"] if item["severity"] in wanted]


def claims(report):
    """Shares of a step that findings promise to give back."""
    return {item["code"]: item["cost"]["step_share"] or 0.0 for item in report["findings"]}


def idle(truth):
    return 1 - truth["busy"]


def run_alike(folder, text, shape):
    """As `run_until`, and until the steps that were watched are like those of the truth: three times at most."""
    for _ in range(3):
        report, truth = run_until(folder, text, shape)
        if abs(report["run"]["device_idle"] - idle(truth)) < TOLERANCE:
            break
    return report, truth


def within(report, truth):
    """No claim goes beyond what the device was seen idle, and that is what it was."""
    most = max(claims(report).values(), default=0.0)
    return most <= report["run"]["device_idle"] + 0.01 and most <= idle(truth) + TOLERANCE


def starves(truth):
    return idle(truth) > STARVES


def starves_by_loader(truth):
    return starves(truth) and truth["loader"] > STARVES


def works(truth):
    return idle(truth) < WORKS


@pytest.mark.slow
def test_a_device_that_is_always_busy_has_nothing_to_gain(tmp_path):
    report, truth = run_until(tmp_path, program(work=24e-3, steps=60), works)
    assert report["run"]["device_idle"] <= idle(truth) + TOLERANCE
    assert not [code for code in codes(report) if code.startswith(("SYNC", "DATA", "OBS", "PERF"))]


REST = 8e-3
"""Seconds of the host's after each read: so long the device has nothing to do, on any machine."""


def waits_and_works(truth):
    """The host waits for most of the time, and most of that the device works."""
    return truth["waits"] > 0.4 and truth["busy"] > 0.5 and idle(truth) > 0.15


@pytest.mark.slow
def test_reading_the_loss_is_worth_what_the_device_is_idle(tmp_path):
    """Without the read the host's rest would pass while the device works: that is the best cure."""
    read = f"total = loss.item(); time.sleep({REST})"
    text = "import time\n" + program(work=20e-3, steps=50, after=read)
    report, truth = run_alike(tmp_path, text, waits_and_works)
    assert report["run"]["phases"]["sync"] > truth["waits"] - TOLERANCE
    assert within(report, truth), (claims(report), report["run"]["device_idle"], truth)
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
    began = time.perf_counter()
    x, y = next(batches)
    truth.loader += time.perf_counter() - began
    return x.to("vgpu"), y.to("vgpu")
"""


@pytest.mark.slow
@pytest.mark.parametrize(("work", "shape", "found"), [(0.0, starves_by_loader, True), (70e-3, works, False)])
def test_a_slow_loader_counts_where_the_device_waits_for_it(tmp_path, work, shape, found):
    """The loader makes a batch in 10 ms; the device needs next to nothing for it, or 70."""
    report, truth = run_alike(tmp_path, program(work=work, batch=SLOW, steps=50), shape)
    assert ("DATA001" in codes(report)) is found
    assert within(report, truth), (claims(report), report["run"]["device_idle"], truth)
