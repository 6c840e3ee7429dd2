import pytest
from recordings import make_process, make_recording, record

from gpudoctor.model import Applicability, Confidence, Severity
from gpudoctor.testing import examine, make_patient, prescribe
from gpudoctor_checks.loop.zero_grad_missing import ZeroGradMissing
from gpudoctor_rules.loop import zero_grad_missing


def uncleared(found, steps=100):
    """The findings on a run some of whose steps began with the gradients of the last one."""
    seen = record(
        "numeric", 3.0, step=steps - 1, kind="uncleared", steps=steps, found=found, path="/job/train.py", line=21
    )
    return examine(ZeroGradMissing, make_patient(recording=make_recording(make_process(records=[seen]))))


@pytest.mark.parametrize(("found", "steps"), [(80, 100), (20, 20)])
def test_sick_gradients_that_are_never_cleared(found, steps):
    [finding] = uncleared(found, steps)
    assert (finding.severity, finding.confidence) == (Severity.ERROR, Confidence.CONFIRMED)
    assert finding.span.line == 21 and finding.cost.breaks
    [remedy] = prescribe(zero_grad_missing, finding, make_patient())
    assert remedy.applicability is Applicability.UNSAFE  # the updates change: that is the point


@pytest.mark.parametrize(("found", "steps"), [(0, 100), (79, 100), (19, 19)])
def test_healthy_gradients_that_are_cleared_or_gathered_now_and_then(found, steps):
    assert uncleared(found, steps) == []
