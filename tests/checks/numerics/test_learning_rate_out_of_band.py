import math

import pytest
from recordings import make_process, make_recording, make_steps, record
from scripts import read_script

from gpudoctor.model import PatientKind, Severity
from gpudoctor.testing import examine, make_patient, prescribe
from gpudoctor_checks.numerics.learning_rate_out_of_band import LearningRateOutOfBand
from gpudoctor_rules.advice import advice
from gpudoctor_rules.numerics import learning_rate_out_of_band


def of_run(rate, n=400, name="SGD", optimizers=1, **columns):
    """The findings on a run whose step i was made with `rate(i)`."""
    made = [
        record("optimizer", name=name, groups=1, lr=rate(0), path="/job/train.py", line=8 + number)
        for number in range(optimizers)
    ]
    process = make_process(make_steps(n, lr=rate, **columns), records=made)
    return examine(LearningRateOutOfBand, make_patient(recording=make_recording(process)))


@pytest.mark.parametrize("known", [1, 7])
def test_sick_a_schedule_of_epochs_that_is_stepped_per_batch(known):
    """Halved every ten steps; the rate is read in every step, or in every seventh."""
    [finding] = of_run(lambda i: 0.1 * 0.5 ** (i // 10) if i % known == 0 else math.nan)
    assert finding.severity is Severity.WARNING and finding.detail.cure == "spent"
    assert "fell from 0.1 to 1.8e-13" in finding.message
    since = 200 if known == 1 else 203
    assert f"below 1e-07 since step {since}, in {400 - since} of 400 steps" in finding.message
    assert finding.cost.breaks  # before whatever costs time
    [remedy] = prescribe((learning_rate_out_of_band, *advice("numerics")), finding, make_patient())
    assert "as long as the training" in remedy.title


@pytest.mark.parametrize("optimizers", [1, 3])
def test_sick_a_schedule_that_goes_on_below_zero(optimizers):
    [finding] = of_run(lambda i: 2e-4 * (1 - i / 100), n=140, name="Adam", optimizers=optimizers)
    assert finding.severity is Severity.ERROR and finding.cost.breaks
    assert "fell from 0.0002 to -7.8e-05" in finding.message and "in 40 of 140 steps" in finding.message
    [remedy] = prescribe((learning_rate_out_of_band, *advice("numerics")), finding, make_patient())
    assert "as long as the training" in remedy.title


def test_sick_rates_of_other_optimizers_in_a_run():
    [finding] = of_run(lambda i: 0.5, name="RMSprop")
    assert finding.message == "RMSprop trained with a rate of 0.5; the usual maximum is 0.01."


def test_healthy_rates_of_other_optimizers_in_a_run():
    assert of_run(lambda i: 0.01, name="RMSprop") == []
    assert of_run(lambda i: 2.0, loss=lambda i: 0.7 + i) == []
    assert of_run(lambda i: 40.0, loss=lambda i: 1e-4 * 0.99**i) == []  # a small loss has a large rate
    assert of_run(lambda i: 1.0, name="Adadelta") == []


def test_sick_a_rate_that_was_never_high_enough_breaks_the_run():
    [finding] = of_run(lambda i: 1e-9)
    assert finding.detail.cure == "low" and finding.cost.breaks


PAIRS = """
    import torch
    from trl import LEFT
    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-8)
    for pair in torch.utils.data.DataLoader([1]):
        loss = (model(pair["left"]) - model(pair["right"])).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
"""


def of_script(text, rate):
    source = read_script(text)
    made = record("optimizer", name="Adam", groups=1, lr=rate, path=source.scripts[0].path, line=4)
    run = make_recording(make_process(make_steps(100, lr=lambda _: rate), records=[made]))
    return make_patient(source=source, kind=PatientKind.SCRIPT, recording=run)


@pytest.mark.parametrize(("trainer", "found"), [("DPOConfig", 0), ("SFTConfig", 1)])
def test_a_training_on_preferences_has_a_band_that_begins_lower(trainer, found):
    text = PAIRS.replace("LEFT", trainer)
    assert len(examine(LearningRateOutOfBand, of_script(text, 4e-8))) == found
