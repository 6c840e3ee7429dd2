import pytest
from looks import look, remedies
from recordings import make_process, make_recording, make_steps, record
from scripts import script_patient

from gpudoctor.model import Severity, Unavailable
from gpudoctor.testing import examine
from gpudoctor_checks.numerics.loss_trouble import LossTrouble


def losses(shape, n=200):
    return make_process(make_steps(n, loss=shape))


def test_sick_a_loss_that_diverges():
    [finding] = look(LossTrouble, losses(lambda i: 2.0 - 0.01 * i if i < 60 else 1.4 * 1.03 ** (i - 60)))
    assert finding.severity is Severity.WARNING and finding.detail.kind == "diverging"
    assert "rate" in remedies(finding)


def test_sick_a_loss_that_jumps():
    [finding] = look(LossTrouble, losses(lambda i: 30.0 if i % 40 == 39 else 1.0))
    assert (finding.severity, finding.detail.kind) == (Severity.WARNING, "spiking") and finding.cost.breaks


def test_a_loss_that_jumps_and_gets_better_all_the_same_is_healthy():
    assert look(LossTrouble, losses(lambda i: 2.0 if i < 10 or i % 40 == 39 else 0.05)) == []
    [finding] = look(LossTrouble, losses(lambda i: 60.0 if i % 40 == 39 else 2.0 - 0.002 * i))  # a fifth better
    assert finding.severity is Severity.WARNING


def test_sick_a_loss_that_stands_still_is_a_note():
    [finding] = look(LossTrouble, losses(lambda i: 2.3026 + 0.001 * ((i * 7919) % 13 - 6), n=700))
    assert (finding.severity, finding.detail.kind) == (Severity.NOTE, "stalled")
    assert "one batch" in remedies(finding)


@pytest.mark.parametrize(
    "shape",
    [
        lambda i: 2.0 * 0.99**i + 0.3,
        lambda i: 30.0 if i == 100 else 1.0,  # one bad batch
        lambda i: -1.0 + 0.02 * i,  # a policy's loss
        lambda i: 2.0 if i < 100 else 2.5,  # a harder second data set
        lambda i: 0.001 + 0.002 * (i % 7) / 7,  # learned by heart
        lambda i: 2.3 if i < 3 else 1.0 if i < 6 else 0.2 if i % 40 == 39 else 0.001,  # hard batches
    ],
    ids=["falls", "one-spike", "signed", "a-little-up", "noise-near-zero", "hard-batches-near-zero"],
)
def test_healthy_losses(shape):
    assert look(LossTrouble, losses(shape)) == []


def test_no_losses():
    with pytest.raises(Unavailable, match="losses"):
        look(LossTrouble, make_process(make_steps(200, loss=float("nan"))))


def test_losses_that_play_against_each_other_are_not_judged():
    two = [record("optimizer", 1.0, name="Adam", parameters=9, missing=[], line=n) for n in (5, 6)]
    with pytest.raises(Unavailable, match="several optimizers"):
        look(LossTrouble, make_process(make_steps(200, loss=lambda i: 1.0 + 0.02 * i), records=two))


def test_healthy_losses_of_reinforcement_learning_follow_the_returns():
    text = """
        import torch
        import gymnasium as gym
        world = gym.make("CartPole-v1")
        value = torch.nn.Linear(4, 1)
        optimizer = torch.optim.SGD(value.parameters(), 0.1)
        for step in range(1000):
            seen, reward, over, cut, _ = {call}
            loss = (value(torch.tensor(seen)) - reward).pow(2).mean()
            loss.backward()
            optimizer.step()
    """
    recording = make_recording(losses(lambda i: 30.0 if i % 40 == 39 else 1.0))
    plain = script_patient(text.format(call="next(rows)"), recording=recording)
    assert len(examine(LossTrouble, plain)) == 1
    played = script_patient(text.format(call="world.step(0)"), recording=recording)
    with pytest.raises(Unavailable, match="returns"):
        examine(LossTrouble, played)
