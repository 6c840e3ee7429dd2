from recordings import make_process, make_recording, make_steps, record

from gpudoctor.model import Severity
from gpudoctor.model.signs.recording import RunEnd
from gpudoctor.testing import examine, make_patient, prescribe
from gpudoctor_checks.failure.device_assert import DeviceAssert
from gpudoctor_rules.advice import advice


def look(*ranks, **changes):
    """The findings on a recording of these ranks."""
    return examine(DeviceAssert, make_patient(recording=make_recording(*ranks, **changes)))


def remedies(finding):
    """Titles and steps of the remedies, in one text."""
    found = prescribe(advice("failure"), finding, make_patient(recording=make_recording()))
    assert found
    return " ".join([item.title for item in found] + [step for item in found for step in item.steps])


FRAMES = [["/job/train.py", 41, "train", "out = model(x)"], ["/env/lib/python3.11/site-packages/t.py", 9, "f", ""]]


def died(kind, message, t=5.0, user=0, rank=0, world=1, **fields):
    """A rank that ended with an exception."""
    given = {"frames": FRAMES, "user": user, "step": 120, "phase": "forward", "oom": None, **fields}
    end = record("exception", t, exception=kind, message=message, **given)
    return make_process(make_steps(120), records=[end], clean=False, rank=rank, world=world)


FAILED = RunEnd(exit_code=1, seconds=9.0)


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
