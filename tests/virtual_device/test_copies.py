"""Copies of batches to the device: only the time that nothing hides counts, whatever stream they are on."""

import pytest
from virtual import program, run_until

TOLERANCE = 0.08
"""Share of a step by which a claim may miss: the truth is of other steps than those that were watched."""
COPY = 6e-3
"""Seconds that the copy of a batch takes."""

INLINE = """
BYTES = 16 * 32 * 4
vgpu.device.set_bandwidth(BYTES / COPY)
kept = torch.randn(16, 32).pin_memory()
labels = torch.randint(0, 8, (16,)).to("vgpu")
def batch():
    return kept.to("vgpu", non_blocking=True), labels
"""
"""The copy is on the stream that trains: the device does nothing else meanwhile."""
BESIDE = """
BYTES = 16 * 32 * 4
vgpu.device.set_bandwidth(BYTES / COPY)
kept = torch.randn(16, 32).pin_memory()
labels = torch.randint(0, 8, (16,)).to("vgpu")
side = torch.vgpu.Stream()
def copied():
    with torch.vgpu.stream(side):
        return kept.to("vgpu", non_blocking=True)
coming = [copied()]
def batch():
    torch.vgpu.current_stream().wait_stream(side)
    rows = coming.pop()
    coming.append(copied())
    return rows, labels
"""
"""The next batch is copied on a stream of its own while this one is trained."""


def transfer(report):
    """The finding about copies, or None."""
    return next((item for item in report["findings"] if item["code"] == "DATA005"), None)


def measured(report):
    """The share of a step that copies take by the finding; 0 without one."""
    found = transfer(report)
    named = {item.get("name"): item.get("value") for item in (found or {"evidence": []})["evidence"]}
    return named.get("device_transfer_share", 0.0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("batch", "work", "low", "high"),
    [
        pytest.param(INLINE, 6e-3, 0.3, 0.6, id="on the stream that trains"),
        pytest.param(BESIDE, 2e-3, 0.3, 0.8, id="beside too little work to hide them"),
    ],
)
def test_copies_that_nothing_hides_are_found_with_their_share(tmp_path, batch, work, low, high):
    text = program(work=work, steps=120, batch=batch.replace("COPY", str(COPY)))

    def close(report, truth):
        return abs(measured(report) - truth["copying"]) < TOLERANCE

    report, truth = run_until(tmp_path, text, lambda truth: low < truth["copying"] < high, close)
    assert transfer(report) is not None, truth
    assert close(report, truth), (measured(report), truth)


@pytest.mark.slow
def test_copies_beside_enough_work_cost_nothing(tmp_path):
    text = program(work=24e-3, steps=80, batch=BESIDE.replace("COPY", str(COPY)))
    report, truth = run_until(tmp_path, text, lambda truth: truth["hidden_copies"] > 0.15 and truth["copying"] < 0.05)
    assert transfer(report) is None, (measured(report), truth)
    shares = [item["cost"]["step_share"] or 0.0 for item in report["findings"]]
    assert max(shares, default=0.0) <= 1 - truth["busy"] + TOLERANCE
