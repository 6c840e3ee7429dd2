from recordings import make_process, make_recording, make_steps, record

from gpudoctor.model import Severity
from gpudoctor.testing import examine, make_patient, prescribe
from gpudoctor_checks.training.updates_lost import UpdatesLost
from gpudoctor_rules.advice import advice


def seen(steps=400, **fields):
    records = [
        record("optimizer", name="AdamW", parameters=100, path="/job/train.py", line=9),
        record("numeric", kind="updates", step=steps - 1, ratio=1e-5, since=0, **fields),
    ]
    patient = make_patient(recording=make_recording(make_process(make_steps(steps), records=records)))
    found = examine(UpdatesLost, patient)
    assert all(prescribe(advice("training"), item, patient) for item in found)
    return found


def test_sick_most_updates_vanish():
    [found] = seen(stuck=0.7, until=390)
    assert found.severity is Severity.WARNING and found.span.line == 9
    assert "After 390 steps, 70 %" in found.message


def test_sick_nearly_all_vanish():
    [found] = seen(stuck=0.97, until=390)
    assert found.severity is Severity.ERROR and found.cost.breaks


def test_healthy_a_copy_in_float32_moves_the_weights_after_some_steps():
    assert seen(stuck=0.2, until=390) == []


def test_healthy_too_early_or_weights_in_float32():
    assert seen(stuck=0.98, until=12) == seen() == []
