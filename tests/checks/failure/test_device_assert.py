from looks import FAILED, died, look_of, remedies_of
from recordings import make_process

from gpudoctor.model import Severity
from gpudoctor_checks.failure.device_assert import DeviceAssert
from gpudoctor_rules.advice import advice

look, remedies = look_of(DeviceAssert), remedies_of(advice("failure"))


def test_sick_a_label_out_of_range():
    [finding] = look(died("RuntimeError", "CUDA error: device-side assert triggered"), end=FAILED)
    assert finding.severity is Severity.ERROR and finding.span.line == 41
    assert "num_classes" in remedies(finding)


def test_sick_an_illegal_access():
    [finding] = look(died("AcceleratorError", "CUDA error: an illegal memory access was encountered"), end=FAILED)
    assert "compute-sanitizer" in remedies(finding)


def test_healthy_ends():
    assert look(make_process()) == []
    assert look(died("RuntimeError", "CUDA out of memory"), end=FAILED) == []
