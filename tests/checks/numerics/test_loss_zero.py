import pytest
from recordings import NAN, make_process, make_recording, make_steps, record

from gpudoctor.model import Confidence, Unavailable
from gpudoctor.testing import examine, make_patient, prescribe
from gpudoctor_checks.numerics.loss_zero import LossZero
from gpudoctor_rules.advice import advice


def look(loss, grad_norm=NAN, steps=200, records=()):
    """The findings on a run with these losses and gradient norms."""
    table = make_steps(steps, loss=loss, grad_norm=grad_norm)
    return examine(LossZero, make_patient(recording=make_recording(make_process(table, records=records))))


def test_sick_in_every_step():
    [finding] = look(0.0, grad_norm=0.0)
    assert finding.message == (
        "The loss is exactly zero in 100 % of the steps, first in step 0. These steps change nothing."
    )
    assert finding.confidence is Confidence.CONFIRMED and finding.cost.breaks
    remedies = prescribe(advice("numerics"), finding, make_patient(recording=make_recording()))
    assert [item.id for item in remedies] == ["NUM012-labels"]


def test_healthy_losses_that_are_small():
    assert look(1e-12) == []


def test_healthy_below_the_share():
    assert look(lambda step: 0.0 if step % 10 == 0 else 0.4) == []


def test_healthy_where_a_loss_of_zero_has_a_gradient():
    assert look(0.0, grad_norm=0.7) == []
    assert look(0.0, records=[record("numeric", kind="norms", step=50, norm=0.7)]) == []


def test_healthy_where_losses_are_not_known():
    assert look(NAN) == []


def test_a_short_run_is_not_judged():
    with pytest.raises(Unavailable):
        look(0.0, steps=10)
