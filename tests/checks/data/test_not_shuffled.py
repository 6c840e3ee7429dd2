import pytest
from recordings import make_process, make_recording, make_steps, record

from gpudoctor.model import Confidence, Severity
from gpudoctor.testing import examine, make_patient, prescribe
from gpudoctor_checks.data.not_shuffled import NotShuffled
from gpudoctor_rules.data.loaders import not_shuffled


def recorded(labels, order="sequential", losses=48):
    single = sum(often for label, often in labels if label >= 0)
    seen = record("numeric", 3.0, kind="labels", step=99, losses=losses, found=single, elements=losses * 16,
                  classes=4, loader=0, labels=labels, path="/job/train.py", line=16)  # fmt: skip
    loader = record("loader", 1.0, id=0, role="training", order=order, path="/job/train.py", line=10)
    return make_recording(make_process(make_steps(100), records=[loader, seen]))


def test_sick_recorded_batches_hold_one_class_each():
    sick = make_patient(recording=recorded([[-1, 4], [0, 22], [1, 22]]))
    [finding] = examine(NotShuffled, sick)
    assert (finding.severity, finding.confidence) == (Severity.WARNING, Confidence.CONFIRMED)
    assert "44 batches" in finding.message and finding.cost.breaks
    assert prescribe(not_shuffled, finding, sick)


@pytest.mark.parametrize(
    "seen",
    [
        recorded([[-1, 48]]),
        recorded([[-1, 24], [0, 12], [1, 12]]),
        recorded([[-1, 4], [0, 43], [1, 1]]),
        recorded([[0, 48]]),
        recorded([[0, 24], [1, 24]], order=None),
        recorded([[0, 6], [1, 6]], losses=12),
    ],
)
def test_healthy_recordings(seen):
    """Mixed; half mixed; a rare class; one class; somebody's own sampler; few."""
    assert examine(NotShuffled, make_patient(recording=seen)) == []
