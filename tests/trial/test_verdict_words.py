"""The headline after trials: a promise that a trial has refuted is no longer made."""

import pytest

from gpudoctor.model import Applicability, Effort, Remedy
from gpudoctor.model.proof import Conclusion, Proof, TrialPair, TrialRow, TrialSummary
from gpudoctor.model.records import replace
from gpudoctor.report.units import remedy_gain
from gpudoctor.trial.trial_verdict import verdict_words

WAITS = "The training waits for data 71 % of every step. "
PROMISE = (
    "Curing the first two findings should make this run 1.43x to 3.5x faster; no other finding is worth your time."
)


def after(conclusion, ratio, diagnosis=WAITS + PROMISE):
    proof = Proof(ratio=ratio, low=ratio - 0.05, high=ratio + 0.05, pairs=5, verdict="slower")
    row = TrialRow(name="DATA001-workers", title="num_workers=2", conclusion=conclusion, proof=proof)
    trial = TrialSummary(step_seconds=0.1, warm_up_steps=5, steps=50, rows=(row,))
    return verdict_words(trial, diagnosis, promise=PROMISE)


@pytest.mark.parametrize("conclusion", [Conclusion.SLOWER, Conclusion.UNCLEAR])
def test_a_trial_in_vain_takes_the_promise_back(conclusion):
    words = after(conclusion, 0.86)
    assert "3.5x" not in words and words.startswith(WAITS)
    assert words.endswith("makes it clearly faster (1 change tried).")


@pytest.mark.parametrize(
    ("seconds", "begins"),
    [
        (
            (0.10, 0.14, 0.11),
            "Undecided: runs of the unchanged command differ by up to 40 %, as on a busy machine. Try",
        ),
        ((0.10, 0.10, 0.10), "Undecided: the time was too short. Give more with --budget. The training waits"),
    ],
)
def test_trials_without_an_answer_are_the_headline(seconds, begins):
    pairs = tuple(TrialPair(baseline=each, candidate=0.1, candidate_first=False, aside=False) for each in seconds)
    proof = Proof(ratio=1.1, low=0.6, high=2.0, pairs=3, verdict="no clear difference")
    row = TrialRow(name="a", title="a", conclusion=Conclusion.UNCLEAR, proof=proof, pairs=pairs)
    trial = TrialSummary(step_seconds=0.1, warm_up_steps=5, steps=50, rows=(row,))
    assert verdict_words(trial, WAITS + PROMISE, promise=PROMISE).startswith(begins)
    moved = replace(trial, rows=(replace(row, conclusion=Conclusion.MOVED),))
    assert "Undecided" not in verdict_words(moved, WAITS, promise=PROMISE)


@pytest.mark.parametrize(
    ("ratio", "low", "high", "verdict", "said"),
    [
        (1.18, 0.98, 1.94, "no clear difference", "trial: no clear difference, 1.18x measured (0.98 to 1.94)"),
        (1.18, 0.08, 16.94, "no clear difference", "trial: undecided, its runs differ too much"),
        (0.86, 0.81, 0.91, "slower", "trial: slower, 0.86x measured (0.81 to 0.91)"),
        (1.29, 1.08, 1.54, "faster", "gain: 1.29x measured (1.08 to 1.54)"),
    ],
)
def test_only_a_clear_difference_is_a_gain(ratio, low, high, verdict, said):
    remedy = Remedy(
        id="DATA001-workers",
        title="num_workers=2",
        steps=("Set num_workers=2.",),
        applicability=Applicability.SAFE,
        effort=Effort.ONE_LINE,
        proof=Proof(ratio=ratio, low=low, high=high, pairs=5, verdict=verdict),
    )
    assert remedy_gain(remedy) == [said]
