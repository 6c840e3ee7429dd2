"""Pairs of arms on a bench without processes: when they stop and what is concluded."""

import math
import time
from types import SimpleNamespace

import pytest

from gpudoctor.model.proof import Conclusion
from gpudoctor.trial.paired_runs import BaselineFailed, Tried, try_arm
from gpudoctor.trial.trial_runner import Arm, TrialRun
from gpudoctor.trial.trial_verdict import reason_of
from gpudoctor.trial.window import TrialWindow

CURVE = {step: 2.0 / (1 + step) for step in range(20)}
CHANGE = Arm(name="change", environment={"A": "1"})


class FakeBench:
    """Answers with windows; what `seconds` gives is called with the arm's name and the lap's number."""

    def __init__(self, seconds, losses=None, reached=frozenset(), samples=32.0):
        self.seconds, self.losses, self.reached = seconds, losses or {}, reached
        self.samples = samples
        self.deadline = math.inf
        self.order: list[str] = []

    def lap(self, arm: Arm) -> TrialRun:
        value = self.seconds(arm.name, len(self.order))
        self.order.append(arm.name)
        if isinstance(value, str):
            return TrialRun(finished=SimpleNamespace(), recording=None, window=None, problem=value)
        found = TrialWindow(
            first=1, steps=20, seconds=value, reached=self.reached,
            samples=self.samples if arm.name == "baseline" else self.samples * (2 if arm.name == "batch" else 1),
            losses=self.losses.get(arm.name, CURVE), memory=1000 if arm.name == "baseline" else 800,
        )  # fmt: skip
        return TrialRun(finished=SimpleNamespace(), recording=None, window=found)


def trial(bench, arm=CHANGE, left=60.0) -> Tried:
    tried = Tried(arm=arm)
    try_arm(bench, tried, deadline=time.monotonic() + left)
    return tried


def wobble(number: int) -> float:
    return 1 + 0.004 * math.sin(number)


def test_twice_as_fast_is_proven_at_the_first_look_in_balanced_order():
    bench = FakeBench(lambda arm, n: (1.0 if arm == "baseline" else 0.5) * wobble(n))
    tried = trial(bench)
    proof = tried.proof()
    assert tried.conclusion() is Conclusion.PROVEN
    assert (proof.pairs, proof.verdict, proof.loss, proof.memory) == (3, "faster", "identical", (1000, 800))
    assert proof.low < proof.ratio < proof.high
    assert proof.ratio == pytest.approx(2, rel=0.02)
    assert bench.order == ["baseline", "change", "change", "baseline", "change", "baseline"]


def test_the_same_speed_is_no_clear_difference_and_a_slower_one_is_slower():
    assert trial(FakeBench(lambda arm, n: wobble(n))).conclusion() is Conclusion.UNCLEAR
    slower = FakeBench(lambda arm, n: (1.0 if arm == "baseline" else 1.3) * wobble(n))
    assert trial(slower).conclusion() is Conclusion.SLOWER


def test_a_faster_run_that_learns_something_else_is_not_proven_and_ends_early():
    moved = {"change": {step: loss + 0.5 for step, loss in CURVE.items()}}
    bench = FakeBench(lambda arm, n: (1.0 if arm == "baseline" else 0.5) * wobble(n), moved)
    tried = trial(bench)
    assert tried.conclusion() is Conclusion.MOVED
    assert tried.proof().loss == "moved"
    assert len(bench.order) == 4


def test_an_arm_that_dies_has_failed_with_its_reason_and_the_baseline_has_a_second_try():
    dies = trial(FakeBench(lambda arm, n: "it ended with exit code 1: boom" if arm == "change" else 1.0))
    assert (dies.conclusion(), dies.problem) == (Conclusion.FAILED, "it ended with exit code 1: boom")
    stumbles = FakeBench(lambda arm, n: "no end within 9 s" if n == 0 else (1 if arm == "baseline" else 0.5))
    assert trial(stumbles).conclusion() is Conclusion.PROVEN
    with pytest.raises(BaselineFailed, match="no end within 9 s"):
        trial(FakeBench(lambda arm, n: "no end within 9 s" if arm == "baseline" else 1.0))


def test_an_override_that_nobody_came_by_ends_after_one_pair():
    arm = Arm(name="change", overrides={"torch.num_threads": "2"})
    void = FakeBench(lambda arm, n: 1.0)
    assert trial(void, arm).conclusion() is Conclusion.WITHOUT_EFFECT
    assert len(void.order) == 2
    acts = FakeBench(lambda arm, n: 1.0 if arm == "baseline" else 0.5, reached=frozenset({"torch.num_threads"}))
    assert trial(acts, arm).conclusion() is Conclusion.PROVEN


def test_the_time_that_is_left_is_kept():
    def slow(arm, n):
        time.sleep(0.05)
        return wobble(n)

    tried = trial(FakeBench(slow), left=0.3)
    assert 2 <= len(tried.pairs) <= 3
    assert tried.conclusion() is Conclusion.UNCLEAR
    assert reason_of(tried, Conclusion.UNCLEAR) == f"the time ran out after {len(tried.pairs)} pairs"
    same = trial(FakeBench(lambda arm, n: wobble(n)))
    assert reason_of(same, same.conclusion()) == ""
    assert trial(FakeBench(slow), left=-1.0).conclusion() is Conclusion.NOT_TRIED
