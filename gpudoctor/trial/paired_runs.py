"""One change against the baseline: pairs back to back until they decide, and whether the loss has moved."""

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean, median
from typing import Literal

from gpudoctor.errors import IncompleteError
from gpudoctor.lang import say
from gpudoctor.model.proof import Conclusion, Cure, Proof
from gpudoctor.trial.decision import LOOKS, Decision, WindowPair, candidate_goes_first, decide
from gpudoctor.trial.trial_runner import BASELINE, Arm, TrialRun, TrialRunner
from gpudoctor.trial.window import TrialWindow

# The loss gate: whether a change that made the training faster has moved what it learns.

Loss = Literal["identical", "within tolerance", "moved", "unknown"]

TOLERANCE = 0.01
"""Relative difference of smoothed losses that rounding may cause (bf16 keeps 8 bits: 0.4 % an operation)."""
SPREAD_FACTOR = 3.0
"""Repeats of the baseline that differ widen the tolerance to so many times their largest difference."""
WINDOW = 5
"""Steps averaged before losses are compared: single batches are noisier than what a change does."""
FEWEST = 3
"""Fewer common steps say nothing."""


def judge_losses(baselines: Sequence[Mapping[int, float]], candidates: Sequence[Mapping[int, float]]) -> Loss:
    """Compare curves (step to loss) of repeated runs with the same seeds, aligned by step."""
    pairs = [(a, b) for a in baselines for b in candidates if len(a.keys() & b.keys()) >= FEWEST]
    if not pairs:
        return "unknown"
    steps = ((a[step], b[step]) for a, b in pairs for step in a.keys() & b.keys())
    if all(one == two or (one != one and two != two) for one, two in steps):
        return "identical"
    repeats = [_distance(a, b) for i, a in enumerate(baselines) for b in baselines[:i]]
    allowed = max([TOLERANCE, *(SPREAD_FACTOR * value for value in repeats if value == value)])
    worst = max(_distance(a, b) for a, b in pairs)
    return "within tolerance" if worst <= allowed else "moved"


def _distance(a: Mapping[int, float], b: Mapping[int, float]) -> float:
    """Largest relative difference of the smoothed curves; infinite where only one of them is not a number."""
    steps = sorted(a.keys() & b.keys())
    worst = 0.0
    for at in range(max(1, len(steps) - WINDOW + 1)):
        chunk = steps[at : at + WINDOW]
        one, two = fmean(a[step] for step in chunk), fmean(b[step] for step in chunk)
        if (one == one) != (two == two):
            return float("inf")
        scale = max(abs(one), abs(two))
        if one == one and scale > 0:
            worst = max(worst, abs(one - two) / scale)
    return worst


# One change against the baseline: pairs back to back until they decide, or the time is up.

SAME_BATCH = 0.02
"""Samples a step that differ by less are the same batch; else seconds are of a sample."""
_ENOUGH_FOR_LOSS = 2
"""Pairs after which a moved loss ends a trial: its speed does not matter any more."""


class BaselineFailed(IncompleteError):
    """The command itself does not run through its window: nothing can be compared with it."""


@dataclass(slots=True)
class Tried:
    """The trial of one arm as far as it went."""

    arm: Arm
    gated: bool = True
    """Whether a moved loss ends it early; the user's own changes (another batch) are measured all the same."""
    baseline: list[TrialWindow] = field(default_factory=list)
    candidate: list[TrialWindow] = field(default_factory=list)
    first: list[bool] = field(default_factory=list)
    """Whether the candidate of a pair ran first."""
    problem: str = ""
    ended: Conclusion | None = None
    """Set where no pair decides it."""
    decision: Decision | None = None
    cure: Cure | None = None
    """Of a remedy of something else than speed: what a run of it has shown."""
    safe: bool = True
    """Whether the remedy must leave the loss alone."""

    @property
    def per(self) -> str:
        """`step`, or `sample` where the batches differ in size."""
        sizes = [_size(windows) for windows in (self.baseline, self.candidate)]
        differ = None not in sizes and abs((sizes[1] or 0) - (sizes[0] or 0)) > SAME_BATCH * (sizes[0] or 1)
        return "sample" if differ else "step"

    @property
    def pairs(self) -> list[WindowPair]:
        """Pairs of seconds."""
        return [
            WindowPair(baseline=_seconds(a, self.per), candidate=_seconds(b, self.per), candidate_first=first)
            for a, b, first in zip(self.baseline, self.candidate, self.first, strict=False)
        ]

    @property
    def loss(self) -> Loss:
        """The loss gate's word."""
        return judge_losses([item.losses for item in self.baseline], [item.losses for item in self.candidate])

    def proof(self) -> Proof | None:
        """What the pairs prove, and the re-run; None before there are two pairs or such a run."""
        if self.decision is None:
            if self.cure is None:
                return None
            nan = math.nan
            return Proof(ratio=nan, low=nan, high=nan, pairs=0, verdict="no clear difference", cure=self.cure)
        loss = self.loss
        return Proof(
            ratio=self.decision.ratio,
            low=self.decision.low,
            high=self.decision.high,
            pairs=self.decision.pairs,
            aside=len(self.decision.aside),
            loss=None if loss == "unknown" else loss,
            verdict=self.decision.verdict,
            memory=_memory(self.baseline, self.candidate),
            per=self.per,
            cure=self.cure,
        )

    def conclusion(self) -> Conclusion:
        """How it ended, in one word."""
        if self.ended is not None:
            return self.ended
        if self.cure is not None and self.cure.gone:
            moved = self.safe and self.decision is not None and self.loss == "moved"
            return Conclusion.MOVED if moved else Conclusion.CURED
        if self.decision is None:
            speed = Conclusion.UNCLEAR if self.pairs else Conclusion.NOT_TRIED
        elif self.loss == "moved":
            speed = Conclusion.MOVED
        else:
            words = {"faster": Conclusion.PROVEN, "slower": Conclusion.SLOWER}
            speed = words.get(self.decision.verdict, Conclusion.UNCLEAR)
        if self.cure is None or speed is Conclusion.PROVEN:
            return speed
        if self.cure.gone is None:
            return Conclusion.UNCLEAR if self.decision is None else speed
        return Conclusion.NOT_CURED

    def step_seconds(self) -> float | None:
        """Median of the candidate's runs."""
        return median(item.seconds for item in self.candidate) if self.candidate else None


def try_arm(bench: TrialRunner, tried: Tried, *, deadline: float, looks: Sequence[int] = LOOKS) -> Tried:
    """Run pairs until they decide, and fill `tried`. `deadline` is on the monotonic clock.

    Raises `BaselineFailed`.
    """
    lap_seconds = 0.0
    for index in range(looks[-1]):
        if time.monotonic() + 2 * lap_seconds > deadline:
            break
        began = time.monotonic()
        if not _pair(bench, tried, candidate_goes_first(index)):
            break
        lap_seconds = max(lap_seconds, (time.monotonic() - began) / 2)
        if index == 0:
            arm, reached = tried.arm, tried.candidate[0].reached
            changed = arm.texts or arm.environment or arm.arguments or arm.command
            if not changed and reached.isdisjoint(arm.overrides):
                tried.ended = Conclusion.WITHOUT_EFFECT
                return tried
        if len(tried.pairs) >= 2:
            tried.decision = decide(tried.pairs, looks=looks)
        if tried.decision and tried.decision.final:
            break
        if tried.gated and len(tried.pairs) >= _ENOUGH_FOR_LOSS and tried.loss == "moved":
            break
    if tried.decision and not tried.decision.final:
        # The time is up: the looks so far, and one at what there is. Never more looks than were planned.
        pairs = len(tried.pairs)
        tried.decision = decide(tried.pairs, looks=(*(look for look in looks if look < pairs), pairs))
    return tried


def _pair(bench: TrialRunner, tried: Tried, candidate_first: bool) -> bool:
    """Run one pair; False where the candidate did not make it."""
    order = (tried.arm, BASELINE) if candidate_first else (BASELINE, tried.arm)
    laps: dict[str, TrialRun] = {}
    for arm in order:
        lap = bench.lap(arm)
        if lap.problem and time.monotonic() < bench.deadline and arm is BASELINE:
            lap = bench.lap(arm)  # once more: a machine has accidents
            if lap.problem and time.monotonic() < bench.deadline:
                raise BaselineFailed(say("the command itself could not be measured: {problem}", problem=lap.problem))
        if lap.problem and time.monotonic() >= bench.deadline:
            return False  # the time is up: that says nothing about the arm
        if lap.problem or lap.window is None:
            tried.problem, tried.ended = lap.problem, Conclusion.FAILED
            return False
        laps[arm.name] = lap
    for windows, arm in ((tried.baseline, BASELINE), (tried.candidate, tried.arm)):
        found = laps[arm.name].window
        assert found is not None
        windows.append(found)
    tried.first.append(candidate_first)
    return True


def _seconds(window: TrialWindow, per: str) -> float:
    return window.seconds / window.samples if per == "sample" and window.samples else window.seconds


def _size(windows: Sequence[TrialWindow]) -> float | None:
    known = [item.samples for item in windows if item.samples]
    return median(known) if len(known) == len(windows) and known else None


def _memory(baseline: Sequence[TrialWindow], candidate: Sequence[TrialWindow]) -> tuple[int, int] | None:
    before = [item.memory for item in baseline if item.memory is not None]
    after = [item.memory for item in candidate if item.memory is not None]
    return (int(median(before)), int(median(after))) if before and after else None
