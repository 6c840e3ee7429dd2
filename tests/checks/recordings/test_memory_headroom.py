"""A recorded run on a GPU with room to spare: MEM007 and PERF007."""

import pytest
from recordings import make_machine, make_process, make_recording, make_steps, record

from gpudoctor.model import Confidence
from gpudoctor.testing import examine, make_patient, prescribe
from gpudoctor_checks.memory.headroom_unused import HeadroomUnused
from gpudoctor_checks.performance.batch_too_small import BatchTooSmall
from gpudoctor_rules.memory import greater_batch

GIB = 1 << 30
DEVICE = 80 * GIB
COLUMNS = {"allocated": 8.0 * GIB, "peak": 12.0 * GIB, "reserved": 13.0 * GIB, "samples": 16.0, "backwards": 2.0}


def patient(busy=0.4, records=(), name="Net", device="cuda:0", **columns):
    steps = make_steps(200, other=0.0002, **{**COLUMNS, **columns})
    told = [
        record("torch", 1.0, device="NVIDIA A100-SXM4-80GB", device_bytes=DEVICE, threads=8),
        record("model", 1.0, name=name, parameters=1000, device=device, path="/job/train.py", line=3),
        *records,
    ]
    machine = make_machine(60, gpu0_util=busy, gpu0_memory=14.0 * GIB)
    return make_patient(recording=make_recording(make_process(steps, records=told), machine=machine, started=""))


def test_room_of_a_run_is_told_with_the_batch_that_fits():
    one = patient()
    [finding] = examine(HeadroomUnused, one)
    assert finding.confidence is Confidence.CONFIRMED
    assert "16 % of 80 GiB" in finding.message and "busy for 40 %" in finding.message
    # (0.9 x 80 - 8) / (12 - 8) = 16 times what grows with the batch of 8 rows a backward pass
    assert "a micro batch of 128 instead of 8 would fit" in finding.message
    [remedy] = prescribe(greater_batch, finding, one)
    assert remedy.title == "use a micro batch of 128"
    assert examine(BatchTooSmall, one) == []  # nobody counted tokens


def test_few_tokens_are_a_batch_that_is_too_small():
    one = patient(tokens=512.0)
    [finding] = examine(BatchTooSmall, one)
    assert finding.message.startswith("256 tokens at a time") and "84 % of its memory free" in finding.message
    [remedy] = prescribe(greater_batch, finding, one)
    assert remedy.title == "use a micro batch of 128"
    assert examine(HeadroomUnused, one) == []  # PERF007's


@pytest.mark.parametrize(
    "changes",
    [
        {"busy": 0.9},
        {"data_wait": 0.01},  # that is why it is idle
        {"peak": 60.0 * GIB, "reserved": 62.0 * GIB},
        {"tokens": 512.0, "busy": 0.9},
        {"tokens": 512.0, "peak": 75.0 * GIB},
    ],
)
def test_no_room_no_word(changes):
    one = patient(**changes)
    assert examine(HeadroomUnused, one) == []
    assert examine(BatchTooSmall, one) == []
