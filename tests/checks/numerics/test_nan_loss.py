import math

import pytest
from looks import look_of, remedies_of
from recordings import make_process, make_steps, record

from gpudoctor.model import Severity, Unavailable
from gpudoctor_checks.numerics.nan_loss import NanLoss
from gpudoctor_rules.advice import advice
from gpudoctor_rules.numerics import not_finite

look = look_of(NanLoss)
remedies = remedies_of((not_finite, *advice("numerics")))


def bad(step, kind="nan-loss"):
    return record("numeric", 3.0, step=step, kind=kind, value="nan", path="/job/train.py", line=44, parameters=["a"])


def test_sick_a_loss_out_of_the_blue():
    [finding] = look(make_process(records=[bad(151), bad(151, "nan-gradients")]))
    assert finding.severity is Severity.ERROR and "step 151" in finding.message
    assert finding.detail.cause == "operation"
    assert "anomaly" in remedies(finding)


def test_sick_a_loss_that_grew_before():
    steps = make_steps(200, loss=lambda i: 1.0 if i < 120 else 1.2 ** (i - 120))
    [finding] = look(make_process(steps, records=[bad(199)]))
    assert finding.detail.cause == "rate"


def first_steps(*losses, norm=1.0, name="SGD"):
    """A training whose loss is no number after these."""
    steps = make_steps(60, loss=lambda i: losses[i] if i < len(losses) else math.nan, grad_norm=math.nan)
    made = record("optimizer", 2.0, name=name, lr=0.01, rates=[0.01], path="/job/train.py", line=8)
    read = record("numeric", 2.0, step=0, kind="norms", norm=norm)
    return make_process(steps, records=[made, read, bad(len(losses))])


def test_sick_a_training_that_runs_away_at_once():
    [finding] = look(first_steps(2.3, 40.0, 9e9))
    assert "the loss had grown 3.91e+09 times" in finding.message and finding.detail.cause == "rate"
    assert "warm-up" in remedies(finding) and "clip" not in remedies(finding)


@pytest.mark.parametrize("rank", [first_steps(2.3, norm=3.0), first_steps(2.3, 2.4, 2.2)])
def test_sick_a_first_loss_that_no_update_explains(rank):
    [finding] = look(rank)
    assert "had grown" not in finding.message and finding.detail.cause == "operation"


def test_sick_the_rank_is_told():
    poisoned = make_steps(200, loss=lambda i: 1.0 if i < 7 else math.nan)
    ranks = [make_process(rank=0, world=2), make_process(poisoned, rank=1, world=2, records=[bad(7)])]
    [finding] = look(*ranks)
    assert "rank 1" in finding.message


def test_healthy_finite_losses():
    assert look(make_process()) == []


def scaler(step, skipped):
    return record("numeric", 3.0, step=step, kind="scaler", scale=2.0 ** (10 - skipped), skipped=skipped)


def test_a_loss_that_came_back_is_a_note():
    [finding] = look(make_process(records=[bad(50), bad(90)]))
    assert finding.severity is Severity.NOTE and finding.cost.breaks is None
    assert "2 times, first at step 50" in finding.message
    assert (finding.span.path, finding.span.line) == ("train.py", 44)


def test_the_gradients_were_first():
    assert look(make_process(records=[bad(100, "nan-gradients"), bad(101)])) == []


def test_nothing_trained():
    with pytest.raises(Unavailable):
        look(make_process(make_steps(0)))
