import pytest
from looks import look_of, remedies_of
from recordings import make_process, make_steps, record

from gpudoctor.model import Unavailable
from gpudoctor_checks.numerics.nan_gradients import NanGradients
from gpudoctor_rules.numerics import not_finite

look = look_of(NanGradients)
remedies = remedies_of(not_finite)


def bad(step, **fields):
    given = {"parameters": ["head.weight"], "value": "nan", "path": "/job/train.py", "line": 44, **fields}
    return record("numeric", 3.0, step=step, kind="nan-gradients", **given)


def test_sick_a_rate_that_is_too_high():
    steps = make_steps(200, grad_norm=lambda i: 1.0 if i < 100 else 1.1 ** (i - 100))
    [finding] = look(make_process(steps, records=[bad(180)]))
    assert finding.detail.cause == "rate" and "lower learning rate" in remedies(finding)


def test_sick_fp16_without_a_scaler():
    torch = record("torch", 1.0, version="2.9", autocast="torch.float16")
    [finding] = look(make_process(records=[torch, bad(3, all=True)]))
    assert finding.detail.cause == "range" and "bf16" in remedies(finding)


def scaler(step, scale, skipped=0):
    return record("numeric", 3.0, step=step, kind="scaler", scale=scale, skipped=skipped)


def test_healthy_overflows_that_the_scaler_skipped():
    told = [scaler(4, 1024.0), scaler(4, 512.0, 1), scaler(91, 256.0, 2)]
    assert look(make_process(records=[bad(3), bad(90), *told])) == []
    assert look(make_process(records=[bad(3), scaler(4, 512.0, 1)])) == []  # the first reading is a skip
    by_rows = make_steps(200, scale=lambda i: 1024.0 if i <= 90 else 512.0)
    assert look(make_process(by_rows, records=[bad(90)])) == []
    assert look(make_process()) == []


def test_sick_a_step_that_the_scaler_did_not_skip():
    [finding] = look(make_process(records=[bad(3), bad(50), scaler(4, 512.0, 1), scaler(80, 1024.0, 1)]))
    assert finding.detail.step == 50


def test_the_loss_was_first():
    loss = record("numeric", 3.0, step=100, kind="nan-loss", value="nan")
    assert look(make_process(records=[loss, bad(100)])) == []


def test_nothing_trained():
    with pytest.raises(Unavailable):
        look(make_process(make_steps(0)))
