"""One session of `verify`: a bounded baseline, the window, one change at a time, the proven ones together."""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gpudoctor.model import Applicability, Ranked, Unavailable
from gpudoctor.model.proof import Conclusion, TrialRow, TrialSummary
from gpudoctor.model.reading.recordings.steady import steady
from gpudoctor.model.signs.recording import Recording
from gpudoctor.trial.arm import Arm
from gpudoctor.trial.bench import Bench
from gpudoctor.trial.candidates import Candidate, Untried, candidates, joined, plan_of
from gpudoctor.trial.measure import BaselineFailed, Tried, try_arm
from gpudoctor.trial.window import FEWEST_STEPS, longest_rhythm, steps_made, warm_up
from gpudoctor.vitals.recording import read_recording

WINDOW_SECONDS = 3.0
"""Of measured steps in every run: enough for the mean of a step to settle within a percent."""
_FEWEST, _SLOW_FEWEST, _SLOW = 20, 8, 20.0
"""Steps of a window at least; fewer where so many take more seconds than this."""
_RHYTHMS, _RHYTHM_SECONDS = 2, 15.0
"""A window holds so many of what comes once in a while, if it fits these seconds."""
_LOOKED_STEPS, _LOOKED_SECONDS, _LONG = 50, 5.0, 20.0
"""What a diagnosis wants to see: steps and seconds after the warm-up, or so many seconds of slow steps."""
_SHARE_OF_BUDGET = 0.2
"""The baseline's share of the time, at most."""


@dataclass(slots=True)
class Session:
    """What was found out so far."""

    bench: Bench
    budget: float
    """Seconds for everything."""
    unsafe: bool = False
    named: tuple[str, ...] = ()
    """Remedies by id; empty tries the best of each finding."""
    top: int | None = None
    """Findings whose remedies are tried; None is all."""
    window_steps: int | None = None
    """Steps of the window, where the user says so."""
    window_seconds: float = WINDOW_SECONDS
    doing: str = ""
    """The change that is being tried."""
    current: Tried | None = None
    """Its trial as far as it has come."""
    began: float = field(default_factory=time.monotonic)
    tried: list[tuple[Candidate, Tried]] = field(default_factory=list)
    untried: list[Untried] = field(default_factory=list)
    together: Tried | None = None
    stopped: str = ""
    """Why trials ended before all were tried."""

    @property
    def left(self) -> float:
        """Seconds of the budget that are left."""
        return max(0.0, self.budget - (time.monotonic() - self.began))

    def enough(self, folder: Path, seconds: float) -> bool:
        """Whether the baseline has shown what a diagnosis needs."""
        try:
            recording = read_recording(str(folder))
        except Unavailable:
            return False
        late = seconds > _SHARE_OF_BUDGET * self.budget
        states = [steady(process) for process in recording.ranks if len(process.steps)]
        if not states:
            return False
        steps, measured = min(item.steps for item in states), min(item.seconds for item in states)
        if late and steps >= FEWEST_STEPS:
            return True
        rhythm = longest_rhythm(recording)
        if rhythm and steps < _RHYTHMS * rhythm and measured < _RHYTHM_SECONDS:
            return False
        quick = steps >= _LOOKED_STEPS and measured >= _LOOKED_SECONDS
        return quick or (steps >= FEWEST_STEPS and measured >= _LONG)

    def choose_window(self, recording: Recording, ended_by_itself: bool) -> bool:
        """Fix the steps of all runs by the baseline's; False where it made too few."""
        states = [steady(process) for process in recording.ranks if len(process.steps)]
        made, skip = steps_made(recording), warm_up(recording)
        if not states or made - skip < FEWEST_STEPS:
            return False
        each = max(item.step_seconds for item in states)
        wanted = self.window_steps or _window_steps(each, longest_rhythm(recording), self.window_seconds)
        self.bench.skip = skip
        self.bench.steps = min(skip + wanted, made) if ended_by_itself else skip + wanted
        return True

    def run(self, ranked: Sequence[Ranked]) -> None:
        """Try what can be tried, then the proven ones together."""
        chosen = candidates(
            ranked if self.top is None else ranked[: self.top], unsafe=self.unsafe, named=self.named
        )
        self.untried = [item for item in chosen if isinstance(item, Untried)]
        wanted = [item for item in chosen if isinstance(item, Candidate)]
        try:
            for number, item in enumerate(wanted):
                together = 1 if len(wanted) > 1 else 0
                share = self.left / (len(wanted) - number + together)
                self.tried.append((item, self._try(item.arm, share)))
            proven = self.proven
            if len(proven) > 1 and self.left > 0:
                arm = joined(proven)
                self.together = self._try(arm, self.left)
        except BaselineFailed as error:
            self.stopped = str(error)

    @property
    def proven(self) -> list[Candidate]:
        """What made it faster and left the loss alone, best first."""
        found = [
            (tried.decision.ratio, item)
            for item, tried in self.tried
            if tried.decision is not None and tried.conclusion() is Conclusion.PROVEN
        ]
        return [item for _, item in sorted(found, key=lambda pair: -pair[0])]

    def _try(self, arm: Arm, seconds: float) -> Tried:
        self.doing, self.current = arm.name, Tried(arm=arm)
        return try_arm(self.bench, self.current, deadline=time.monotonic() + seconds)

    def summary(self) -> TrialSummary:
        """Everything in numbers."""
        rows = [_row(item, tried) for item, tried in self.tried]
        rows += [_untried_row(item) for item in self.untried]
        windows = [item.seconds for _, tried in self.tried for item in tried.baseline]
        return TrialSummary(
            step_seconds=sorted(windows)[len(windows) // 2] if windows else None,
            warm_up_steps=self.bench.skip,
            steps=max(0, (self.bench.steps or 0) - self.bench.skip),
            rows=tuple(sorted(rows, key=_place)),
            together=self._together_row(),
            seconds=time.monotonic() - self.began,
            budget=self.budget,
            patch=plan_of(self.worth_keeping).diff,
        )

    @property
    def worth_keeping(self) -> list[Candidate]:
        """Proven edits that may be applied: the combination's, unless that was worse than the best alone."""
        proven = self.proven
        together = self.together
        if together is not None and together.conclusion() in (
            Conclusion.MOVED,
            Conclusion.SLOWER,
            Conclusion.FAILED,
        ):
            proven = proven[:1]
        allowed = {Applicability.SAFE, *([Applicability.UNSAFE] if self.unsafe else [])}
        return [item for item in proven if item.edits and item.remedy.applicability in allowed]

    def _together_row(self) -> TrialRow | None:
        if self.together is None:
            return None
        names = ", ".join(item.remedy.id for item in self.proven)
        return TrialRow(
            name="together",
            title=names,
            conclusion=self.together.conclusion(),
            reason=self.together.problem,
            proof=self.together.proof(),
            step_seconds=self.together.step_seconds(),
        )


def _window_steps(each: float, rhythm: int, seconds: float) -> int:
    steps = math.ceil(seconds / max(each, 1e-6))
    fewest = _FEWEST if _FEWEST * each <= _SLOW else _SLOW_FEWEST
    steps = max(steps, fewest)
    if rhythm and _RHYTHMS * rhythm * each <= _RHYTHM_SECONDS:
        steps = max(steps, _RHYTHMS * rhythm)
    return steps


def _row(item: Candidate, tried: Tried) -> TrialRow:
    return TrialRow(
        name=item.remedy.id,
        title=item.remedy.title,
        conclusion=tried.conclusion(),
        reason=tried.problem or ("the time was up" if tried.conclusion() is Conclusion.NOT_TRIED else ""),
        proof=tried.proof(),
        step_seconds=tried.step_seconds(),
        patch=item.edits,
    )


def _untried_row(item: Untried) -> TrialRow:
    return TrialRow(
        name=item.remedy.id, title=item.remedy.title, conclusion=Conclusion.NOT_TRIED, reason=item.reason
    )


_ORDER = list(Conclusion)


def _place(row: TrialRow) -> tuple[int, float]:
    return _ORDER.index(row.conclusion), -row.proof.ratio if row.proof else 0.0
