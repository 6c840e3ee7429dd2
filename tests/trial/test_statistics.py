"""The statistics of a trial: quantiles against published values, stalls, verdicts, and their error by simulation."""

import math
import random

import pytest

from gpudoctor.trial.decision import LOOKS, WindowPair, candidate_goes_first, decide, stalled
from gpudoctor.trial.paired_runs import judge_losses


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


def test_verdicts_and_their_intervals():
    base = [1.50, 1.52, 1.49, 1.51]
    decision = decide(pairs_of(base, [1.0, 1.01, 0.99, 1.0]))
    assert decision.verdict == "faster"
    assert decision.final
    assert 1.02 < decision.low < decision.ratio < decision.high
    assert decision.ratio == pytest.approx(1.505, abs=0.01)
    assert decide(pairs_of([1.0, 1.01, 0.99, 1.0], base)).verdict == "slower"


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
