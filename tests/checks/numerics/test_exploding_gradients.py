import pytest
from looks import look_of, remedies_of
from recordings import make_process, make_steps, record

from gpudoctor.model import Severity, Unavailable
from gpudoctor_checks.numerics.exploding_gradients import ExplodingGradients
from gpudoctor_rules.advice import advice

look = look_of(ExplodingGradients)
remedies = remedies_of(advice("numerics"))


def norms(shape, **columns):
    return make_process(make_steps(200, grad_norm=shape, **columns))


def test_sick_norms_that_grow():
    [finding] = look(norms(lambda i: 1.2 ** max(0, i - 60), loss=lambda i: 1.0 + i / 10))
    assert finding.severity is Severity.ERROR and finding.cost.breaks
    assert "clip_grad_norm_" in remedies(finding)


def test_sick_ten_times_is_a_warning():
    [finding] = look(norms(lambda i: 1.0 if i < 120 else 30.0, loss=2.0))
    assert finding.severity is Severity.WARNING and finding.cost.breaks is None


def test_healthy_norms():
    assert look(norms(1.0)) == []
    assert look(norms(lambda i: 10.0 * 0.97**i)) == []
    assert look(norms(lambda i: 1000.0 if i in (40, 90, 150) else 1.0)) == []


def test_healthy_norms_that_grow_while_the_loss_falls():
    assert look(norms(lambda i: 0.01 + 0.01 * i)) == []


def test_sick_norms_that_are_out_of_hand_from_the_start():
    [finding] = look(norms(3e7, loss=2.0))
    assert finding.severity is Severity.WARNING and "norm of the gradients" in finding.message
    assert "clip_grad_norm_" in remedies(finding)
    assert look(norms(3e7, loss=lambda i: 1e9 * 0.99**i)) == []


@pytest.mark.parametrize(
    "shape",
    [lambda i: 20.0 if i % 3 == 2 else 0.0, lambda i: 0.0 if i < 120 else 20.0, lambda i: 0.0],
    ids=["taking turns", "later", "none"],
)
def test_healthy_norms_of_zero_are_no_measure(shape):
    """Two optimizers take turns, or a hinge is satisfied."""
    assert look(norms(shape, loss=2.0)) == []


def test_sick_norms_that_grow_where_every_other_one_is_zero():
    [finding] = look(norms(lambda i: 1.2 ** max(0, i - 60) if i % 2 else 0.0, loss=lambda i: 1.0 + i / 10))
    assert finding.severity is Severity.ERROR


def test_no_norms():
    with pytest.raises(Unavailable, match="gradient norms"):
        look(make_process())


def of_a_copy(*, missing, held):
    made = [record("model", 1.0, name="Net", trainable=200, parameters=200),
            record("optimizer", 1.0, name="SGD", parameters=held, missing=missing)]  # fmt: skip
    return make_process(make_steps(200, grad_norm=lambda i: 1.0 + i * i, loss=2.0), records=made)


def test_healthy_gradients_that_no_optimizer_holds_add_up():
    assert look(of_a_copy(missing=["weight", "bias"], held=200)) == []


def test_sick_gradients_of_the_optimizers_own_parameters():
    assert len(look(of_a_copy(missing=[], held=200))) == 1
    assert len(look(of_a_copy(missing=["head.weight"], held=50))) == 1
