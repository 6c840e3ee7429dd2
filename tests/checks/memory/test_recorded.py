"""Checks of memory on recordings."""

import pytest
from looks import look, remedies
from recordings import make_process, make_steps, record

from gpudoctor.model import Severity, Unavailable
from gpudoctor.model.signs.recording import RunEnd
from gpudoctor_checks.memory.fragmented import Fragmented
from gpudoctor_checks.memory.gpu_memory_leak import GpuMemoryLeak
from gpudoctor_checks.memory.near_limit import NearLimit
from gpudoctor_checks.memory.out_of_memory import OutOfMemory

CARD = record("torch", 1.0, version="2.9", device="NVIDIA H100", device_bytes=80 * 2**30)
GIB = float(1 << 30)


def memory(reserved, peak, *records):
    return make_process(make_steps(200, reserved=reserved, peak=peak), records=[CARD, *records])


def test_sick_reserved_and_not_in_use():
    [finding] = look(Fragmented, memory(60 * GIB, 25 * GIB))
    assert "60 GiB is reserved for 25 GiB" in finding.message
    assert "expandable_segments" in remedies(finding)


def test_sick_retries():
    [finding] = look(
        Fragmented, memory(70 * GIB, 60 * GIB, record("memory", 3.0, step=90, kind="retries", retries=7, ooms=0))
    )
    assert "7 times" in finding.message


def test_healthy_allocators():
    assert look(Fragmented, memory(30 * GIB, 25 * GIB)) == []
    assert look(Fragmented, memory(10 * GIB, 2 * GIB)) == []  # an eighth of the card: nobody minds
    with pytest.raises(Unavailable):
        look(Fragmented, make_process())


MIB = float(1 << 20)
CUDA_CARD = record("torch", 1.0, version="2.9", cuda="12.8", device="NVIDIA H100", device_bytes=80 * 2**30)


def leaking(shape, n=300, records=()):
    return make_process(make_steps(n, allocated=lambda i: 4e9 + shape(i)), records=[CUDA_CARD, *records])


def test_sick_a_step_that_leaves_something_behind():
    grown = record("memory", 4.0, step=250, kind="snapshot", device="cuda",
                   growth=[["cat", 250, 500 * MIB, "/job/train.py", 41]])  # fmt: skip
    [finding] = look(GpuMemoryLeak, leaking(lambda i: 2 * MIB * i, records=[grown]))
    assert finding.severity is Severity.ERROR and finding.cost.breaks
    assert (finding.span.path, finding.span.line) == ("train.py", 41)
    assert "detach" in remedies(finding)


def test_sick_a_slow_leak_is_a_warning():
    steps = make_steps(3000, forward=3.0, allocated=lambda i: 4e9 + 1e4 * i)
    [finding] = look(GpuMemoryLeak, make_process(steps, records=[CUDA_CARD]))
    assert finding.severity is Severity.WARNING and finding.cost.breaks is None


def test_healthy_memory():
    assert look(GpuMemoryLeak, leaking(lambda i: 0)) == []
    assert look(GpuMemoryLeak, leaking(lambda i: min(i, 60) * 8 * MIB)) == []  # a cache that fills
    assert look(GpuMemoryLeak, leaking(lambda i: (i * 7919 % 50) * 8 * MIB)) == []  # batches of all lengths
    assert look(GpuMemoryLeak, leaking(lambda i: 1e3 * i)) == []  # a counter


def test_no_device():
    with pytest.raises(Unavailable, match="device memory"):
        look(GpuMemoryLeak, make_process())


def peak(share):
    return make_process(make_steps(200, peak=share * 80 * 2**30, reserved=share * 79 * 2**30), records=[CARD])


def test_sick_a_card_that_is_full():
    [finding] = look(NearLimit, peak(0.98))
    assert finding.severity is Severity.WARNING and "98 %" in finding.message
    assert "checkpointing" in remedies(finding)
    [finding] = look(NearLimit, peak(0.93))
    assert finding.severity is Severity.NOTE


def test_healthy_room():
    assert look(NearLimit, peak(0.85)) == []
    with pytest.raises(Unavailable):
        look(NearLimit, make_process())


DEAD = RunEnd(exit_code=1, seconds=20.0)


def oom(steps=200, step=200, phase="forward", allocated=70, reserved=72, **columns):
    """A run that died of device memory."""
    frames = [["/job/train.py", 41, "train", "out = model(x)"], ["/env/site-packages/torch/nn.py", 9, "f", ""]]
    held = {
        "allocated": allocated * int(GIB),
        "reserved": reserved * int(GIB),
        "total": 80 * int(GIB),
        "requested": 12 * int(GIB),
    }
    died = record("exception", 5.0, exception="OutOfMemoryError", message="CUDA out of memory. Tried to allocate",
                  frames=frames, user=0, step=step, phase=phase, oom=held)  # fmt: skip
    return make_process(make_steps(steps, **columns), records=[died], clean=False)


@pytest.mark.parametrize(
    ("arguments", "cause", "word"),
    [
        ({"steps": 1, "step": 0}, "batch", "accumulation"),
        ({}, "batch", "checkpointing"),
        ({"phase": "evaluation"}, "evaluation", "inference_mode"),
        ({"allocated": 30, "reserved": 70}, "fragments", "expandable_segments"),
        ({"allocated": 70, "steps": 300}, "leak", "detach"),
    ],
)
def test_sick_by_its_moment(arguments, cause, word):
    columns = {}
    if cause == "leak":
        columns = {"noise": 0.0}
        process = make_process(
            make_steps(300, allocated=lambda i: 1e9 + 1e8 * i), records=oom().of("exception"), clean=False
        )
    else:
        process = oom(**arguments, **columns)
    [finding] = look(OutOfMemory, process, end=DEAD)
    assert finding.severity is Severity.ERROR and finding.detail.cause == cause
    assert (finding.span.path, finding.span.line) == ("train.py", 41)
    assert word in remedies(finding)


def test_healthy_ends():
    assert look(OutOfMemory, make_process()) == []
    assert look(OutOfMemory, oom(), end=RunEnd(exit_code=0)) == []  # it was caught
