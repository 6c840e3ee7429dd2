from recordings import make_process, make_recording, make_steps, record

from gpudoctor.model import Severity
from gpudoctor.testing import examine, make_patient, prescribe
from gpudoctor_checks.training.gradients_misscaled import GradientsMisscaled
from gpudoctor_rules.advice import advice


def seen(optimizer="SGD", clips=None, norm=1.0, loader=True, **fields):
    passes = {"looks": 10, "micro": 4, "path": "/job/train.py", "line": 7}
    records = [
        *([record("loader", id=1)] if loader else []),
        record("optimizer", name=optimizer, parameters=100, path="/job/train.py", line=9),
        record("gradients", step=32, **{**passes, **fields}),
        *([record("clips", step=32, clips=10, scaled=0, limit=clips)] if clips else []),
    ]
    steps = make_steps(60, grad_norm=lambda step: norm)
    patient = make_patient(recording=make_recording(make_process(steps, records=records)))
    found = examine(GradientsMisscaled, patient)
    assert all(prescribe(advice("training"), item, patient) for item in found)
    return found


def test_sick_micro_batches_that_nobody_divides():
    [found] = seen(undivided=10)
    assert found.severity is Severity.WARNING and found.span.line == 7
    assert "a weight of 1." in found.message and "4 times that of their mean" in found.message
    for less in ({"optimizer": "AdamW"}, {"loader": False}):
        [found] = seen(**less, undivided=10)
        assert found.severity is Severity.NOTE


def test_sick_divided_twice():
    [found] = seen(twice=10)
    assert "0.0625" in found.message and "0.25 times" in found.message


def test_healthy_one_step_of_ten():
    assert seen(undivided=1, twice=1, again=1) == []


def test_healthy_too_few_looks():
    assert seen(looks=2, undivided=2) == []


def test_sick_the_same_loss_twice():
    [found] = seen(again=10, micro=1)
    assert "runs backward twice in 10 of 10 steps" in found.message


def test_sick_means_over_uneven_micro_batches():
    [found] = seen(uneven=7.0)
    assert found.severity is Severity.NOTE and "7.0 times the targets" in found.message
    assert seen(uneven=1.2) == []


def test_sick_clipped_in_every_step():
    [found] = seen(clips=0.1, norm=5.0)
    assert found.severity is Severity.NOTE and "clipped at 0.1 in 100 % of the steps" in found.message
    assert seen(clips=0.1, norm=0.5) == []  # above the limit, as it is meant
    assert seen(clips=10.0, norm=5.0) == []
