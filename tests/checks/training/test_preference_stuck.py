import math

import pytest
from looks import look, remedies
from recordings import NAN, make_process, make_recording, make_steps, record

from gpudoctor.analysis.run.training.card import changed, training_card
from gpudoctor.model import Severity, Unavailable
from gpudoctor_checks.training.preference_stuck import PreferenceStuck

LN2 = 0.6931


def logs(every=10, by="Trainer.log", **series):
    named = [[name.replace("__", "/"), len(values), [[every * at, value] for at, value in enumerate(values, 1)]]
             for name, values in series.items()]  # fmt: skip
    return make_process(records=[record("logged", 5.0, step=100, by=by, series=named, path="/job/dpo.py",
                                        line=14)])  # fmt: skip


def test_sick_a_policy_that_is_its_own_reference_or_pairs_that_are_equal():
    [finding] = look(PreferenceStuck, logs(loss=[LN2] * 8, rewards__margins=[0.0] * 8))
    assert finding.severity is Severity.ERROR and "never differs from the reference" in finding.message
    assert "in each of 8 readings" in finding.message and (finding.span.path, finding.span.line) == ("dpo.py", 14)
    assert "reference that is not the policy" in remedies(finding)
    [finding] = look(PreferenceStuck, make_process(make_steps(30, loss=math.log(2))))
    assert "in each of 30 readings" in finding.message


def test_healthy_a_loss_that_begins_at_chance():
    assert (
        look(
            PreferenceStuck,
            logs(loss=[LN2, 0.68, 0.66, 0.6, 0.5, 0.5], rewards__margins=[0.0, 0.02, 0.1, 0.2, 0.4, 0.4]),
        )
        == []
    )
    assert look(PreferenceStuck, logs(loss=[LN2] * 4, rewards__margins=[0.0] * 4)) == []  # too few logs
    assert look(PreferenceStuck, logs(loss=[LN2] * 12, rewards__margins=[0.0001] * 12)) == []  # slow
    assert look(PreferenceStuck, make_process(make_steps(30, loss=0.69315))) == []


@pytest.mark.parametrize(
    ("series", "severity", "words"),
    [
        ({"reward_std": [0.0] * 6, "frac_reward_zero_std": [1.0] * 6}, Severity.ERROR, "All rewards are equal"),
        (
            {"kl": [0.1, 0.2, 0.2, 1.0, 20.0, 30.0, 44.0, 42.0], "reward": [0.1] * 8},
            Severity.WARNING,
            "KL to the reference went from",
        ),
        ({"completions__clipped_ratio": [1.0] * 6}, Severity.WARNING, "100 % of the completions are cut"),
        ({"clip_ratio": [0.2, 1.0, 1.0, 1.0, 1.0]}, Severity.WARNING, "ratios are clipped"),
    ],
)
def test_sick_reinforcement(series, severity, words):
    [finding] = look(PreferenceStuck, logs(**series))
    assert finding.severity is severity and words in finding.message and remedies(finding)


def test_healthy_reinforcement():
    solved = [0.4, 0.3, 0.1, 0.0, 0.0, 0.0, 0.0]
    kl = [0.0, 8.0, 11.0, 12.0, 12.0, 12.5, 12.0, 12.2]  # it comes to rest
    assert (
        look(
            PreferenceStuck,
            logs(reward=kl, reward_std=solved, kl=kl, completions__clipped_ratio=[1.0, 0.9, 1.0, 1.0, 1.0]),
        )
        == []
    )
    assert look(PreferenceStuck, logs(kl=[0.1, 2.0, 5.0, 9.0, 20.0, 40.0, 60.0, 90.0])) == []  # an autoencoder's
    assert look(PreferenceStuck, logs(by="print", reward_std=[0.0] * 8)) == []  # rounded
    assert look(PreferenceStuck, logs(frac_reward_zero_std=[0.0, 0.5, 1.0, 1.0, 1.0], clip_ratio=[0.3] * 6)) == []


def test_a_program_that_logs_nothing_is_not_judged():
    with pytest.raises(Unavailable, match="logs no number"):
        look(PreferenceStuck, make_process(make_steps(30, loss=NAN)))


def test_the_card_says_what_is_logged_and_a_trial_what_changed():
    before = make_recording(logs(train__loss=[2.5, 1.0, 0.5], reward_std=[0.0, 0.0, 0.0], mine=[1, 2, 3]))
    [line] = [item for item in training_card(before) if item.name == "logged"]
    assert line.text == "loss 2.5 to 0.5, spread of the rewards 0 to 0 until step 30, by Trainer.log"
    assert line.facts["loss_last"] == 0.5
    after = make_recording(logs(loss=[2.5, 1.0, 0.25], reward_std=[0.0, 0.0, 0.3]))
    assert changed("logged", before, after) == "logged, loss last: 0.5, 0.25 with it"
    assert changed("logged", before, before) == changed("", before, after) == ""


def test_ratios_that_are_always_1():
    def ratios(found):
        read = record("numeric", kind="ratio", step=39, of=24, found=found)
        return look(PreferenceStuck, make_process(make_steps(40, loss=0.5), records=[read]))

    [finding] = ratios(24)
    assert finding.severity is Severity.NOTE and "exactly 1 in all of 24 losses" in finding.message
    assert remedies(finding) and ratios(23) == []
