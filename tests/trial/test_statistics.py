"""The statistics of a trial: quantiles against published values, stalls, verdicts, and their error by simulation."""

import math
import random

import pytest

from gpudoctor.trial.decision import (
    LOOKS,
    WindowPair,
    candidate_goes_first,
    decide,
    stalled,
    student_cdf,
    student_quantile,
)
from gpudoctor.trial.paired_runs import judge_losses


@pytest.mark.parametrize(
    ("degrees", "probability", "published"),
    [(1, 0.975, 12.7062), (2, 0.975, 4.30265), (3, 0.995, 5.84091), (5, 0.995, 4.03214), (7, 0.95, 1.89458),
     (15, 0.995, 2.94671), (30, 0.975, 2.04227)],
)  # fmt: skip
def test_students_quantiles_are_the_published_ones(degrees, probability, published):
    assert student_quantile(probability, degrees) == pytest.approx(published, abs=1e-5)
    assert student_quantile(1 - probability, degrees) == pytest.approx(-published, abs=1e-5)
    assert student_cdf(published, degrees) == pytest.approx(probability, abs=1e-6)


def test_the_order_is_balanced_and_cancels_linear_drift():
    first = [candidate_goes_first(index) for index in range(8)]
    assert sum(first) == 4
    places = {True: 0, False: 0}
    for index, early in enumerate(first):
        places[True] += 2 * index + (0 if early else 1)
        places[False] += 2 * index + (1 if early else 0)
    assert places[True] == places[False]


def pairs_of(baseline, candidate):
    return [WindowPair(baseline=a, candidate=b) for a, b in zip(baseline, candidate, strict=True)]


def test_a_stalled_window_is_set_aside_in_either_arm():
    quiet = [1.0, 1.01, 0.99, 1.0, 1.02, 1.0, 0.99, 1.01]
    spoiled = [*quiet[:3], 1.9, *quiet[4:]]
    for pairs in (pairs_of(spoiled, quiet), pairs_of(quiet, spoiled)):
        assert [i for i, bad in enumerate(stalled(pairs)) if bad] == [3]
        decision = decide(pairs)
        assert decision.aside == (3,)
        assert decision.verdict == "no clear difference"


def test_a_fast_window_is_never_set_aside():
    assert not any(stalled(pairs_of([1.0, 1.0, 0.3, 1.01, 0.99, 1.0], [1.0] * 6)))


def test_verdicts_and_their_intervals():
    base = [1.50, 1.52, 1.49, 1.51]
    decision = decide(pairs_of(base, [1.0, 1.01, 0.99, 1.0]))
    assert decision.verdict == "faster"
    assert decision.final
    assert 1.02 < decision.low < decision.ratio < decision.high
    assert decision.ratio == pytest.approx(1.505, abs=0.01)
    assert decide(pairs_of([1.0, 1.01, 0.99, 1.0], base)).verdict == "slower"


def test_a_gain_below_the_smallest_effect_is_no_gain():
    decision = decide(pairs_of([1.0101, 1.0099, 1.0100, 1.0102], [1.0] * 4))
    assert decision.low > 1
    assert decision.verdict == "no clear difference"
    assert decision.final


def test_between_looks_the_verdict_stays_open():
    pairs = pairs_of([2.0, 2.01, 1.99, 2.0, 2.02], [1.0] * 5)
    assert not decide(pairs).final
    assert decide(pairs[:4]).verdict == "faster"
    with pytest.raises(ValueError, match="two pairs"):
        decide(pairs[:1])


def sequential(rng, sigma, speedup):
    pairs = []
    while True:
        drift = math.exp(rng.gauss(0, 0.05))
        pairs.append(
            WindowPair(
                baseline=drift * math.exp(rng.gauss(0, sigma)),
                candidate=drift * math.exp(rng.gauss(0, sigma)) / speedup,
            )
        )
        if len(pairs) in LOOKS and decide(pairs).final:
            return decide(pairs).verdict


def test_identical_commands_are_seldom_called_faster_and_real_gains_are_found():
    rng = random.Random(1)
    assert sum(sequential(rng, 0.02, 1.0) == "faster" for _ in range(300)) <= 15
    assert sum(sequential(rng, 0.02, 1.10) == "faster" for _ in range(100)) >= 95
    assert sum(sequential(rng, 0.02, 1.0 / 1.10) == "slower" for _ in range(100)) >= 95


@pytest.mark.slow
def test_the_looks_together_miss_the_truth_in_a_twentieth():
    rng, missed = random.Random(5), 0
    for _ in range(1500):
        pairs = pairs_of([math.exp(rng.gauss(0, 0.01)) for _ in range(16)], [1.0] * 16)
        decisions = [decide(pairs[:look]) for look in LOOKS]
        missed += any(not item.low <= 1.0 <= item.high for item in decisions)
    assert missed / 1500 <= 0.07  # 0.05 and three and a half standard deviations


CURVE = {step: 2.0 / (1 + step / 10) for step in range(40)}


def test_losses_identical_within_tolerance_moved_unknown():
    assert judge_losses([CURVE, CURVE], [CURVE]) == "identical"
    rounded = {step: value * (1 + 0.002 * (-1) ** step) for step, value in CURVE.items()}
    assert judge_losses([CURVE], [rounded]) == "within tolerance"
    moved = {step: value * (1 + 0.004 * step) for step, value in CURVE.items()}
    assert judge_losses([CURVE], [moved]) == "moved"
    assert judge_losses([CURVE], [{100: 1.0}]) == "unknown"
    assert judge_losses([CURVE], [{**CURVE, 20: math.nan}]) == "moved"


def test_a_baseline_that_does_not_repeat_itself_widens_the_tolerance():
    again = {step: value * 1.02 for step, value in CURVE.items()}
    candidate = {step: value * 1.05 for step, value in CURVE.items()}
    assert judge_losses([CURVE, again], [candidate]) == "within tolerance"
    assert judge_losses([CURVE, CURVE], [candidate]) == "moved"
