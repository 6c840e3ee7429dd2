import pytest
from looks import look_of, remedies_of
from recordings import make_process, make_steps, record

from gpudoctor.model import Severity, Unavailable
from gpudoctor_checks.memory.gpu_memory_leak import GpuMemoryLeak
from gpudoctor_rules.memory import gpu_memory_leak

look = look_of(GpuMemoryLeak)
remedies = remedies_of(gpu_memory_leak)
MIB = float(1 << 20)
CARD = record("torch", 1.0, version="2.9", cuda="12.8", device="NVIDIA H100", device_bytes=80 * 2**30)


def leaking(shape, n=300, records=()):
    return make_process(make_steps(n, allocated=lambda i: 4e9 + shape(i)), records=[CARD, *records])


def test_sick_a_step_that_leaves_something_behind():
    grown = record("memory", 4.0, step=250, kind="snapshot", device="cuda",
                   growth=[["cat", 250, 500 * MIB, "/job/train.py", 41]])  # fmt: skip
    [finding] = look(leaking(lambda i: 2 * MIB * i, records=[grown]))
    assert finding.severity is Severity.ERROR and finding.cost.breaks
    assert (finding.span.path, finding.span.line) == ("train.py", 41)
    assert "detach" in remedies(finding)


def test_sick_a_slow_leak_is_a_warning():
    steps = make_steps(3000, forward=3.0, allocated=lambda i: 4e9 + 1e4 * i)
    [finding] = look(make_process(steps, records=[CARD]))
    assert finding.severity is Severity.WARNING and finding.cost.breaks is None


def test_healthy_memory():
    assert look(leaking(lambda i: 0)) == []
    assert look(leaking(lambda i: min(i, 60) * 8 * MIB)) == []  # a cache that fills
    assert look(leaking(lambda i: (i * 7919 % 50) * 8 * MIB)) == []  # batches of all lengths
    assert look(leaking(lambda i: 1e3 * i)) == []  # a counter


def test_no_device():
    with pytest.raises(Unavailable, match="device memory"):
        look(make_process())
