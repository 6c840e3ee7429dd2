"""Checks of losses and gradients on recordings."""

import math

import pytest
from looks import look, remedies
from recordings import NAN, make_process, make_recording, make_steps, record

from gpudoctor.model import Confidence, Severity, Unavailable
from gpudoctor.testing import examine, make_patient, prescribe
from gpudoctor_checks.numerics.constant_output import ConstantOutput
from gpudoctor_checks.numerics.constant_target import ConstantTarget
from gpudoctor_checks.numerics.exploding_gradients import ExplodingGradients
from gpudoctor_checks.numerics.loss_zero import LossZero
from gpudoctor_checks.numerics.nan_gradients import NanGradients
from gpudoctor_checks.numerics.nan_loss import NanLoss
from gpudoctor_checks.numerics.vanishing_gradients import VanishingGradients
from gpudoctor_rules.advice import advice


def alike(found, since, step):
    seen = record("numeric", 3.0, kind="alike", step=step, since=since, found=found, loss="MseLoss",
                  path="/job/train.py", line=7)  # fmt: skip
    recording = make_recording(make_process(make_steps(400), records=[seen]))
    return examine(ConstantOutput, make_patient(recording=recording))


def steps_of(finding):
    [remedy] = prescribe(advice("numerics"), finding, make_patient())
    return " ".join(remedy.steps)


def test_sick_from_the_first_step():
    [finding] = alike(40, 0, 90)
    assert finding.severity is Severity.ERROR and finding.cost.breaks
    assert "from the first step on" in finding.message and "40 examined losses" in finding.message
    assert "scale the inputs" in steps_of(finding)


def test_sick_since_a_step_that_killed_it():
    [finding] = alike(31, 300, 399)
    assert "from step 300 on" in finding.message
    assert "learning rate" in steps_of(finding)


@pytest.mark.parametrize("seen", [(29, 0, 200), (60, 380, 399)])
def test_healthy_too_few_looks_or_steps(seen):
    assert alike(*seen) == []


def test_what_an_update_has_killed_is_an_effect_of_the_rate():
    [alive_at_first] = alike(40, 1, 90)
    assert "from the first update on" in alive_at_first.message
    assert alive_at_first.effect_of == "NUM009" and "lower the learning rate" in steps_of(alive_at_first)
    [dead_from_the_start] = alike(40, 0, 90)
    assert dead_from_the_start.effect_of is None


def labelled(labels, elements=1200, losses=60, classes=4, order="random"):
    seen = record("numeric", 3.0, kind="labels", step=99, losses=losses, found=losses, elements=elements,
                  classes=classes, loader=0, labels=labels, path="/job/train.py", line=7)  # fmt: skip
    loader = record("loader", 1.0, id=0, role="training", order=order, path="/job/train.py", line=3)
    recording = make_recording(make_process(make_steps(100), records=[loader, seen]))
    return examine(ConstantTarget, make_patient(recording=recording))


def test_sick_one_label():
    [finding] = labelled([[2, 60]])
    assert finding.severity is Severity.WARNING
    assert "All 1,200 labels that were seen are 2" in finding.message and "4 classes" in finding.message
    [remedy] = prescribe(advice("numerics"), finding, make_patient())
    assert remedy.title == "count the labels of the whole set"


def test_sick_the_order_may_be_why():
    [finding] = labelled([[0, 60]], order="sequential")
    assert "in order" in finding.message
    [remedy] = prescribe(advice("numerics"), finding, make_patient())
    assert "reads in order" in remedy.steps[-1]


@pytest.mark.parametrize(
    "case",
    [
        {"labels": [[-1, 60]]},
        {"labels": [[0, 30], [1, 30]]},
        {"labels": [[0, 59], [-1, 1]]},
        {"labels": [[0, 60]], "elements": 900},
        {"labels": [[0, 20]], "losses": 20},
        {"labels": [[0, 60]], "classes": 1},
        {"labels": []},
    ],
)
def test_healthy(case):
    assert labelled(**case) == []


def zeros(loss, grad_norm=NAN, steps=200, records=()):
    """The findings on a run with these losses and gradient norms."""
    table = make_steps(steps, loss=loss, grad_norm=grad_norm)
    return examine(LossZero, make_patient(recording=make_recording(make_process(table, records=records))))


def test_sick_in_every_step():
    [finding] = zeros(0.0, grad_norm=0.0)
    assert finding.message == (
        "The loss is exactly zero in 100 % of the steps, first in step 0. These steps change nothing."
    )
    assert finding.confidence is Confidence.CONFIRMED and finding.cost.breaks
    remedies = prescribe(advice("numerics"), finding, make_patient(recording=make_recording()))
    assert [item.id for item in remedies] == ["NUM012-labels"]


def test_healthy_losses_that_are_small():
    assert zeros(1e-12) == []


def test_healthy_below_the_share():
    assert zeros(lambda step: 0.0 if step % 10 == 0 else 0.4) == []


def test_healthy_where_a_loss_of_zero_has_a_gradient():
    assert zeros(0.0, grad_norm=0.7) == []
    assert zeros(0.0, records=[record("numeric", kind="norms", step=50, norm=0.7)]) == []


def test_healthy_where_losses_are_not_known():
    assert zeros(NAN) == []


def test_a_short_run_is_not_judged():
    with pytest.raises(Unavailable):
        zeros(0.0, steps=10)


def norms(first, last, mean, count=5):
    return make_process(
        records=[
            record("numeric", step * 1.0, step=step, kind="norms", norm=1.0, first=first, last=last, mean=mean,
                   first_name="body.0.weight", last_name="head.weight")
            for step in range(count)
        ]
    )  # fmt: skip


def test_sick_a_deep_stack_of_sigmoids():
    [finding] = look(VanishingGradients, norms(1e-9, 0.3, 1e-9))
    assert finding.severity is Severity.WARNING and "body.0.weight" in finding.message
    assert "ReLU" in remedies(finding)


def test_healthy_gradients():
    assert look(VanishingGradients, norms(0.1, 0.3, 1e-3)) == []
    assert look(VanishingGradients, norms(1e-4, 0.3, 1e-4)) == []  # a small first layer of a model that learns
    assert look(VanishingGradients, norms(1e-9, 1e-9, 1e-12)) == []  # converged: all of it is small


def test_too_few_readings():
    with pytest.raises(Unavailable):
        look(VanishingGradients, norms(1e-9, 0.3, 1e-9, count=2))


def bad(step, **fields):
    given = {"parameters": ["head.weight"], "value": "nan", "path": "/job/train.py", "line": 44, **fields}
    return record("numeric", 3.0, step=step, kind="nan-gradients", **given)


def test_sick_a_rate_that_is_too_high():
    steps = make_steps(200, grad_norm=lambda i: 1.0 if i < 100 else 1.1 ** (i - 100))
    [finding] = look(NanGradients, make_process(steps, records=[bad(180)]))
    assert finding.detail.cause == "rate" and "lower learning rate" in remedies(finding)


def test_sick_fp16_without_a_scaler():
    torch = record("torch", 1.0, version="2.9", autocast="torch.float16")
    [finding] = look(NanGradients, make_process(records=[torch, bad(3, all=True)]))
    assert finding.detail.cause == "range" and "bf16" in remedies(finding)


def scaler(step, scale, skipped=0):
    return record("numeric", 3.0, step=step, kind="scaler", scale=scale, skipped=skipped)


def test_healthy_overflows_that_the_scaler_skipped():
    told = [scaler(4, 1024.0), scaler(4, 512.0, 1), scaler(91, 256.0, 2)]
    assert look(NanGradients, make_process(records=[bad(3), bad(90), *told])) == []
    assert look(NanGradients, make_process(records=[bad(3), scaler(4, 512.0, 1)])) == []  # the first reading is a skip
    by_rows = make_steps(200, scale=lambda i: 1024.0 if i <= 90 else 512.0)
    assert look(NanGradients, make_process(by_rows, records=[bad(90)])) == []
    assert look(NanGradients, make_process()) == []


def test_sick_a_step_that_the_scaler_did_not_skip():
    [finding] = look(NanGradients, make_process(records=[bad(3), bad(50), scaler(4, 512.0, 1), scaler(80, 1024.0, 1)]))
    assert finding.detail.step == 50


def test_the_loss_was_first():
    loss = record("numeric", 3.0, step=100, kind="nan-loss", value="nan")
    assert look(NanGradients, make_process(records=[loss, bad(100)])) == []


def test_nothing_trained():
    with pytest.raises(Unavailable):
        look(NanGradients, make_process(make_steps(0)))


def bad_loss(step, kind="nan-loss"):
    return record("numeric", 3.0, step=step, kind=kind, value="nan", path="/job/train.py", line=44, parameters=["a"])


def test_sick_a_loss_out_of_the_blue():
    [finding] = look(NanLoss, make_process(records=[bad_loss(151), bad_loss(151, "nan-gradients")]))
    assert finding.severity is Severity.ERROR and "step 151" in finding.message
    assert finding.detail.cause == "operation"
    assert "anomaly" in remedies(finding)


def test_sick_a_loss_that_grew_before():
    steps = make_steps(200, loss=lambda i: 1.0 if i < 120 else 1.2 ** (i - 120))
    [finding] = look(NanLoss, make_process(steps, records=[bad_loss(199)]))
    assert finding.detail.cause == "rate"


def first_steps(*losses, norm=1.0, name="SGD"):
    """A training whose loss is no number after these."""
    steps = make_steps(60, loss=lambda i: losses[i] if i < len(losses) else math.nan, grad_norm=math.nan)
    made = record("optimizer", 2.0, name=name, lr=0.01, rates=[0.01], path="/job/train.py", line=8)
    read = record("numeric", 2.0, step=0, kind="norms", norm=norm)
    return make_process(steps, records=[made, read, bad_loss(len(losses))])


def test_sick_a_training_that_runs_away_at_once():
    [finding] = look(NanLoss, first_steps(2.3, 40.0, 9e9))
    assert "the loss had grown 3.91e+09 times" in finding.message and finding.detail.cause == "rate"
    assert "warm-up" in remedies(finding) and "clip" not in remedies(finding)


@pytest.mark.parametrize("rank", [first_steps(2.3, norm=3.0), first_steps(2.3, 2.4, 2.2)])
def test_sick_a_first_loss_that_no_update_explains(rank):
    [finding] = look(NanLoss, rank)
    assert "had grown" not in finding.message and finding.detail.cause == "operation"


def test_sick_the_rank_is_told():
    poisoned = make_steps(200, loss=lambda i: 1.0 if i < 7 else math.nan)
    ranks = [make_process(rank=0, world=2), make_process(poisoned, rank=1, world=2, records=[bad_loss(7)])]
    [finding] = look(NanLoss, *ranks)
    assert "rank 1" in finding.message


def test_healthy_finite_losses():
    assert look(NanLoss, make_process()) == []


def test_a_loss_that_came_back_is_a_note():
    [finding] = look(NanLoss, make_process(records=[bad_loss(50), bad_loss(90)]))
    assert finding.severity is Severity.NOTE and finding.cost.breaks is None
    assert "2 times, first at step 50" in finding.message
    assert (finding.span.path, finding.span.line) == ("train.py", 44)


def test_the_gradients_were_first():
    assert look(NanLoss, make_process(records=[bad_loss(100, "nan-gradients"), bad_loss(101)])) == []


def test_nothing_trained_has_no_losses():
    with pytest.raises(Unavailable):
        look(NanLoss, make_process(make_steps(0)))


def growing(shape, **columns):
    return make_process(make_steps(200, grad_norm=shape, **columns))


def test_sick_norms_that_grow():
    [finding] = look(ExplodingGradients, growing(lambda i: 1.2 ** max(0, i - 60), loss=lambda i: 1.0 + i / 10))
    assert finding.severity is Severity.ERROR and finding.cost.breaks
    assert "clip_grad_norm_" in remedies(finding)


def test_sick_ten_times_is_a_warning():
    [finding] = look(ExplodingGradients, growing(lambda i: 1.0 if i < 120 else 30.0, loss=2.0))
    assert finding.severity is Severity.WARNING and finding.cost.breaks is None


def test_healthy_norms():
    assert look(ExplodingGradients, growing(1.0)) == []
    assert look(ExplodingGradients, growing(lambda i: 10.0 * 0.97**i)) == []
    assert look(ExplodingGradients, growing(lambda i: 1000.0 if i in (40, 90, 150) else 1.0)) == []


def test_sick_norms_that_are_out_of_hand_from_the_start():
    [finding] = look(ExplodingGradients, growing(3e7, loss=2.0))
    assert finding.severity is Severity.WARNING and "norm of the gradients" in finding.message
    assert "clip_grad_norm_" in remedies(finding)
    assert look(ExplodingGradients, growing(3e7, loss=lambda i: 1e9 * 0.99**i)) == []


@pytest.mark.parametrize(
    "shape",
    [lambda i: 20.0 if i % 3 == 2 else 0.0, lambda i: 0.0 if i < 120 else 20.0, lambda i: 0.0],
    ids=["taking turns", "later", "none"],
)
def test_healthy_norms_of_zero_are_no_measure(shape):
    """Two optimizers take turns, or a hinge is satisfied."""
    assert look(ExplodingGradients, growing(shape, loss=2.0)) == []


def test_no_norms():
    with pytest.raises(Unavailable, match="gradient norms"):
        look(ExplodingGradients, make_process())


def of_a_copy(*, missing, held):
    made = [record("model", 1.0, name="Net", trainable=200, parameters=200),
            record("optimizer", 1.0, name="SGD", parameters=held, missing=missing)]  # fmt: skip
    return make_process(make_steps(200, grad_norm=lambda i: 1.0 + i * i, loss=2.0), records=made)


def test_healthy_gradients_that_no_optimizer_holds_add_up():
    assert look(ExplodingGradients, of_a_copy(missing=["weight", "bias"], held=200)) == []


def test_sick_gradients_of_the_optimizers_own_parameters():
    assert len(look(ExplodingGradients, of_a_copy(missing=[], held=200))) == 1
    assert len(look(ExplodingGradients, of_a_copy(missing=["head.weight"], held=50))) == 1
