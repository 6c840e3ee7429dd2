"""One session of `verify`: a bounded baseline, the window, one change at a time, the proven ones together."""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from gpudoctor.analysis.run.memory_growth import may_grow
from gpudoctor.analysis.run.run_numbers import run_numbers
from gpudoctor.analysis.run.steady_state import steady
from gpudoctor.errors import IncompleteError
from gpudoctor.lang import say
from gpudoctor.model import GROWTH, Applicability, Ranked, Unavailable
from gpudoctor.model.proof import Conclusion, TrialRow
from gpudoctor.model.records import dataclass, field
from gpudoctor.model.signs.recording import Recording
from gpudoctor.trial.candidates import Candidate, Untried, candidates, joined
from gpudoctor.trial.cure import Cures, has_sign, is_timed
from gpudoctor.trial.decision import LOOKS
from gpudoctor.trial.paired_runs import BaselineFailed, Tried, try_arm
from gpudoctor.trial.trial_runner import Arm, TrialRunner
from gpudoctor.trial.window import FEWEST_STEPS, longest_rhythm, steps_made, warm_up
from gpudoctor.vitals.recording.reader import read_recording

_SAFE = Applicability.SAFE
WINDOW_SECONDS = 3.0
"""Of measured steps in every run: enough for the mean of a step to settle within a percent."""
_LONGEST_WINDOW, _SHARE_OF_START = 10.0, 0.5
"""Where a run takes long to get there, more of it is measured: a window half as long as the start costs little
and is worth more pairs."""
_FEWEST, _SLOW_FEWEST, _SLOW = 20, 8, 20.0
"""Steps of a window at least; fewer where so many take more seconds than this."""
_RHYTHMS, _RHYTHM_SECONDS = 2, 15.0
"""A window holds so many of what comes once in a while, if it fits these seconds."""
_LOOKED_STEPS, _LOOKED_SECONDS, _LONG = 50, 5.0, 20.0
"""What a diagnosis wants to see: steps and seconds after the warm-up, or so many seconds of slow steps, and of
memory that grows: how much a leak has left behind is what tells it from a cache that fills up."""
_SHARE_OF_BUDGET = 0.2
"""The baseline's share of the time, at most."""
_HALF_MINUTE = 30.0
_SLOWER, _SPARE = 4.0, 30.0
"""A run may take so many times what the baseline takes, and so many seconds more, before it is ended."""


@dataclass(slots=True, kw_only=True)
class Attempt:
    """One change that was tried."""

    name: str
    title: str
    tried: Tried
    candidate: Candidate | None = None
    """The remedy; None for a change that the user named."""

    @property
    def ratio(self) -> float | None:
        """How much faster, where that is proven."""
        decision = self.tried.decision
        return decision.ratio if decision and self.tried.conclusion() is Conclusion.PROVEN else None


def lap_of(recording: Recording, window_steps: int | None) -> tuple[int, float] | None:
    """Steps measured in a run of the recorded command, and its seconds; None where it made too few to say."""
    states = [steady(process) for process in recording.ranks if len(process.steps)]
    if not states or steps_made(recording) - warm_up(recording) < FEWEST_STEPS:
        return None
    each = max(item.step_seconds for item in states)
    start = run_numbers(recording).start_seconds or 0.0
    start += max(item.warm_up_seconds for item in states)
    steps = window_steps
    if not steps:
        measured = min(_LONGEST_WINDOW, max(WINDOW_SECONDS, _SHARE_OF_START * start))
        fewest = _FEWEST if _FEWEST * each <= _SLOW else _SLOW_FEWEST
        steps = max(math.ceil(measured / max(each, 1e-6)), fewest)
        rhythm = longest_rhythm(recording)
        if rhythm and _RHYTHMS * rhythm * each <= _RHYTHM_SECONDS:
            steps = max(steps, _RHYTHMS * rhythm)
    return steps, start + steps * each


_DECIDES = LOOKS[2]
"""Pairs that find a change of a third in two of three trials where runs differ by a tenth (simulated); the first
look finds it in one of fourteen."""


@dataclass(slots=True, kw_only=True)
class TrialSession:
    """What was found out so far."""

    bench: TrialRunner
    budget: float
    """Seconds for everything."""
    unsafe: bool = False
    named: tuple[str, ...] = ()
    """Remedies by id; empty tries the best of each finding."""
    top: int | None = None
    """Findings whose remedies are tried; None is all."""
    window_steps: int | None = None
    """Steps of the window, where the user says so."""
    lap_seconds: float = 0.0
    """What a run of the window takes, by the baseline."""
    doing: str = ""
    """The change that is being tried."""
    current: Tried | None = None
    """Its trial as far as it has come."""
    changes: int = 0
    """Changes that are tried in all."""
    planned: Callable[[], None] = lambda: None
    """Called once it is known how many changes are tried and how long a run takes."""
    began: float = field(default_factory=time.monotonic)
    attempts: list[Attempt] = field(default_factory=list)
    untried: list[Untried] = field(default_factory=list)
    searched: list[TrialRow] = field(default_factory=list)
    """Runs of a search, one each."""
    together: Attempt | None = None
    stopped: str = ""
    """Why trials ended before all were tried."""
    interrupted: bool = False
    """Whether it was Ctrl-C."""
    cures: Cures | None = None
    """Looks whether an ailment that is not about speed is gone; None where nobody can."""

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
        scheduled = self.unsafe and any(process.of("schedule") for process in recording.ranks)
        if not states or (scheduled and not late):  # what its end shows can be tried
            return False
        steps, measured = min(item.steps for item in states), min(item.seconds for item in states)
        if late and steps >= FEWEST_STEPS:
            return True
        rhythm = longest_rhythm(recording)
        if rhythm and steps < _RHYTHMS * rhythm and measured < _RHYTHM_SECONDS:
            return False
        long = steps >= FEWEST_STEPS and measured >= _LONG
        grows = any(may_grow(process, column) for process in recording.ranks for column in ("allocated", "rss"))
        return long or (steps >= _LOOKED_STEPS and measured >= _LOOKED_SECONDS and not grows)

    def choose_window(self, recording: Recording, ended_by_itself: bool) -> bool:
        """Fix the steps of all runs by the baseline's; False where it made too few."""
        made, skip = steps_made(recording), warm_up(recording)
        lap = lap_of(recording, self.window_steps)
        if lap is None:
            return False
        bench = self.bench
        measured, self.lap_seconds = lap
        bench.skip = skip
        bench.steps = min(skip + measured, made) if ended_by_itself else skip + measured
        bench.seconds = _SPARE + _SLOWER * self.lap_seconds
        bench.deadline = self.began + self.budget
        return True

    def try_remedies(self, ranked: Sequence[Ranked], *, timed: bool = True) -> None:
        """Try what can be tried, then the proven ones together.

        Without `timed` (the command dies, or makes too few steps) only what cures something is looked at.
        """
        first = ranked if self.top is None else ranked[: self.top]
        chosen = candidates(first, unsafe=self.unsafe, named=self.named)
        self.untried = [item for item in chosen if isinstance(item, Untried)]
        wanted = [item for item in chosen if isinstance(item, Candidate)]
        if not timed:
            wanted = [item for item in wanted if self.cures is not None and has_sign(item.item)]
        with self.stopping():
            signs = self.cures is not None and any(has_sign(item.item) for item in wanted)
            self._plan(sum(is_timed(item.item) for item in wanted) if timed else 0, without_pairs=signs)
            for number, item in enumerate(wanted):
                # The most valuable one has what first looks at the others leave, or all where that decides little.
                others = self.first_looks(len(wanted) - number - 1 + bool(self.proven))
                decides = 2 * _DECIDES * self.lap_seconds
                share = self.left - others if self.left - others >= decides else self.left
                self.attempts.append(
                    self.attempt(item.remedy.id, item.remedy.title, item.arm, share, item, gated=True, timed=timed)
                )
            proven = [*self.proven, *(item for item in self.cured if item.remedy.applicability is _SAFE)]
            if len(proven) > 1 and self.left > 0 and timed:
                title = ", ".join(item.remedy.id for item in proven)
                self.together = self.attempt("together", title, joined(proven), self.left, gated=True)

    def try_arms(self, arms: Sequence[tuple[str, Arm]]) -> None:
        """Try changes that the user named: titles and arms."""
        with self.stopping():
            self._plan(len(arms))
            for number, (title, arm) in enumerate(arms):
                share = max(self.left / (len(arms) - number), min(self.left, self.first_looks(1)))
                self.attempts.append(self.attempt(arm.name, title, arm, share))

    def _plan(self, changes: int, *, without_pairs: bool = False) -> None:
        """Say what is to come. Raises `BudgetSpent` where nothing can be decided in what is left."""
        self.changes = changes
        if changes and self.left < self.first_looks(1) and not without_pairs:
            more = self.enough_for(LOOKS[1])
            raise BudgetSpent(say("the time left is too short for one comparison; use --budget {more}", more=more))
        if changes:
            self.planned()

    def first_looks(self, changes: int) -> float:
        """Seconds until so many changes can be decided: fewer pairs have an interval that holds everything."""
        return 2 * LOOKS[0] * self.lap_seconds * changes

    def enough_for(self, pairs: int) -> str:
        """The value of `--budget` that is enough for so many pairs of runs of each change."""
        return budget_flag(self.budget - self.left + 2 * pairs * self.lap_seconds * self.changes)

    def attempt(
        self, name: str, title: str, arm: Arm, seconds: float, candidate: Candidate | None = None,
        *, gated: bool = False, timed: bool = True,
    ) -> Attempt:  # fmt: skip
        """Try one arm for at most so many seconds; `gated`: a moved loss ends it. Raises `BaselineFailed`."""
        deadline = time.monotonic() + seconds
        tried = Tried(arm=arm, gated=gated)
        self.doing, self.current = name, None
        if candidate is not None and self.cures is not None and has_sign(candidate.item):
            # What is kept less of may be what a backward pass reads: a leak's cure leaves the loss alone, too.
            leaks = candidate.item.finding.traits & GROWTH
            tried.safe = candidate.remedy.applicability is _SAFE or bool(leaks)
            found = self.cures.of(candidate.item, candidate.arm, deadline)
            if isinstance(found, str):
                tried.problem, tried.ended = found, Conclusion.FAILED
            else:  # a moved loss is what most of them are for
                tried.cure = found
                tried.gated = tried.gated and tried.safe
            timed = timed and is_timed(candidate.item) and tried.ended is None
            timed = timed and (tried.cure is None or tried.cure.gone is not False)
        if timed and deadline - time.monotonic() >= self.first_looks(1):
            self.current = tried
            try_arm(self.bench, tried, deadline=deadline, looks=LOOKS if tried.cure is None else LOOKS[:1])
        return Attempt(name=name, title=title, tried=tried, candidate=candidate)

    @contextmanager
    def stopping(self) -> Iterator[None]:
        """Around trials: a baseline that fails, or Ctrl-C, ends them and keeps what was found out."""
        try:
            yield
        except (BaselineFailed, BudgetSpent) as error:
            self.stopped = str(error)
        except KeyboardInterrupt:
            self.stopped, self.interrupted = say("you interrupted them"), True

    @property
    def proven(self) -> list[Candidate]:
        """What made it faster and left the loss alone, best first."""
        found = [item for item in self.attempts if item.ratio is not None]
        found.sort(key=lambda item: -(item.ratio or 0.0))
        return [item.candidate for item in found if item.candidate is not None]

    @property
    def cured(self) -> list[Candidate]:
        """What took its ailment away, in the order of the findings."""
        found = [item for item in self.attempts if item.tried.conclusion() is Conclusion.CURED]
        return [item.candidate for item in found if item.candidate is not None]

    @property
    def worth_keeping(self) -> list[Candidate]:
        """Edits that cure, and proven ones: the combination's, unless that was worse than the best alone.

        What may change results was not tried without --unsafe. A period of watching that `check --fix` leaves
        to a person may be written here: the trial has shown that the loss stays.
        """
        proven = self.proven
        worse = (Conclusion.MOVED, Conclusion.SLOWER, Conclusion.FAILED)
        if self.together is not None and self.together.tried.conclusion() in worse:
            proven = proven[:1]
        return [item for item in (*self.cured, *proven) if item.edits]


class BudgetSpent(IncompleteError):
    """The time that is left is too short for a comparison."""


def budget_flag(seconds: float) -> str:
    """Seconds as a value of `--budget`, rounded up to half a minute."""
    minutes, rest = divmod(math.ceil(seconds / _HALF_MINUTE) * int(_HALF_MINUTE), 60)
    return f"{minutes}m{rest}s" if minutes and rest else f"{minutes}m" if minutes else f"{rest}s"
