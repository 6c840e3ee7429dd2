"""Proof by the ailment's own sign: with the remedy in place the command runs again, and is examined again.

What is not about speed (NaN, a wrong loss, a leak, a death) is proven by its absence: the check that found it
looks at the re-run, of as many steps, and finds nothing. A check that could not judge proves nothing. Growth
of memory is also given in bytes a step, without and with the remedy.
"""

import math
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from gpudoctor.analysis.run.memory_growth import readings, rise, tree_growth
from gpudoctor.lang import say
from gpudoctor.model import GROWTH, Confidence, Found, Passed, Ranked, Report, Skipped, Trait
from gpudoctor.model.proof import BadStepDetail, Cure
from gpudoctor.model.signs.recording import Recording
from gpudoctor.text import size
from gpudoctor.trial.trial_runner import Arm, TrialRun, TrialRunner
from gpudoctor.trial.window import steps_made

Diagnose = Callable[[Path, Arm, frozenset[str]], Report]
"""Examines a run's folder for some codes, with the arm's sources in place of the user's."""

_TOPICS = ("NUM", "LOOP", "MEM", "FAIL")
_LEFT = 0.25
"""Growth with the remedy, as a share of that without, from which on a leak is not gone."""
_ENOUGH = 0.5
"""Share of the steps asked for that a run must make, which ended of itself."""
_AFTER = 30
"""Steps after the first bad one, or after a death, that a re-run must make."""
_SLOWER, _SPARE = 3.0, 20.0


def has_sign(item: Ranked) -> bool:
    """Whether a finding is about something else than speed, and a run has shown it."""
    finding = item.finding
    if finding.confidence is not Confidence.CONFIRMED or finding.cost.share is not None:
        return False
    return finding.cost.breaks is not None or finding.code.startswith(_TOPICS)


class Cures:
    """Runs arms again and looks whether the baseline's ailments are gone."""

    def __init__(
        self, bench: TrialRunner, diagnose: Diagnose, ranked: Sequence[Ranked], recording: Recording, seconds: float
    ) -> None:
        """`seconds` is how long the baseline took."""
        self._bench = bench
        self._diagnose = diagnose
        self._signs = [item for item in ranked if has_sign(item)]
        self._recording = recording
        self._limit = _SPARE + _SLOWER * seconds
        self._died = recording.end is not None and recording.end.failed

    def seconds(self) -> float:
        """A re-run takes that long at most."""
        return self._limit

    def of(self, item: Ranked, arm: Arm, deadline: float) -> Cure | str:
        """Whether the arm cures a finding; a clause where its run says nothing."""
        limit = min(self._limit, deadline - time.monotonic())
        lap = self._bench.look(arm, steps=self.steps(item), seconds=limit, machine=True)
        if lap.finished.failed and not self._died:
            return lap.problem
        return self.judge(item, arm, lap)

    def steps(self, item: Ranked) -> int:
        """Steps that show whether it is gone."""
        made = max(1, steps_made(self._recording))
        if self._died:
            return made + _AFTER
        detail = item.finding.detail
        return min(made, detail.step + _AFTER) if isinstance(detail, BadStepDetail) else made

    def judge(self, item: Ranked, arm: Arm, lap: TrialRun) -> Cure:
        """What a run of the arm shows of the finding."""
        codes = frozenset(str(sign.finding.code) for sign in self._signs)
        report = self._diagnose(Path(lap.recording.path), arm, codes)
        gone, there = _outcomes(report, codes)
        code, reason = str(item.finding.code), _reason(report, str(item.finding.code))
        traits = item.finding.traits
        state = True if code in gone else False if code in there else None
        before = after = None
        if traits & GROWTH:
            before, after = growth_rate(self._recording, traits), growth_rate(lap.recording, traits)
            state = _leaks_on(state, before, after)
        if self._died and lap.finished.failed:
            state = False
        if state and (short := self._too_short(item, lap)):
            state, reason = None, short
        words = _words(state, before, after, reason, self._died)
        return Cure(
            code=code,
            name=item.finding.name,
            gone=state,
            words=words,
            also=tuple(sorted(gone - {code})) if state else (),
            steps=steps_made(lap.recording),
            before=before,
            after=after,
            unit="B" if before is not None else "",
        )

    def _too_short(self, item: Ranked, lap: TrialRun) -> str:
        """Why a run in which nothing is found proves nothing; "" where it went far enough.

        A run that came to its own end may have made fewer steps: a larger batch does that.
        """
        made, wanted = steps_made(lap.recording), self.steps(item)
        if lap.problem and made < wanted:
            return say("{made} of {wanted} steps: {problem}", made=made, wanted=wanted, problem=lap.problem)
        if not self._died and made < _ENOUGH * wanted:
            return say("it made {made} of {wanted} steps", made=made, wanted=wanted)
        return ""


def _leaks_on(state: bool | None, before: float | None, after: float | None) -> bool | None:
    """Whether a leak is gone: its check finds it no more, and the growth that was measured is gone too."""
    if not state or not before:
        return state
    return None if after is None else after <= _LEFT * before


def growth_rate(recording: Recording, traits: frozenset[Trait]) -> float | None:
    """Bytes a step of the rank that grows fastest; with loader workers of the whole tree, where it was seen."""
    ranks = [process for process in recording.ranks if len(process.steps)]
    column = memory_column(recording, traits)
    found = [growth.per_step for process in ranks if (growth := rise(process, column)) is not None]
    if recording.workers and column == "rss":
        tree = tree_growth(recording)
        found += [tree.per_step] if tree is not None else []
    return max(found) if found else None


def memory_column(recording: Recording, traits: frozenset[Trait]) -> str:
    """The column of the steps that shows a leak with these traits: the device's memory where it was read."""
    if Trait.DEVICE_MEMORY_GROWS not in traits:
        return "rss"
    read = any(readings(process, "allocated") for process in recording.ranks if len(process.steps))
    return "allocated" if read or Trait.HOST_MEMORY_GROWS not in traits else "rss"


def _outcomes(report: Report, codes: frozenset[str]) -> tuple[set[str], set[str]]:
    """Codes that were looked for and not found, and those that were found."""
    gone = {str(item.code) for item in report.outcomes if isinstance(item, Passed)} & codes
    there = {str(item.code) for item in report.outcomes if isinstance(item, Found)} & codes
    return gone, there


def _reason(report: Report, code: str) -> str:
    skipped: Iterable[str] = (
        item.reason for item in report.outcomes if isinstance(item, Skipped) and item.code == code
    )
    return next(iter(skipped), "")


def _words(state: bool | None, before: float | None, after: float | None, reason: str, died: bool) -> str:
    if state is not None and before is not None and after is not None:
        return say("grew {before} a step, {after} with it", before=rate_text(before), after=rate_text(after))
    if state is None:
        return (
            say("the re-run does not show it ({reason})", reason=reason)
            if reason
            else say("the re-run does not show it")
        )
    if died:
        return say("the command gets past the step where it died") if state else say("the command dies as before")
    return say("not found any more in as many steps") if state else say("found again, as before")


def rate_text(value: float) -> str:
    """Bytes a step: `309 KiB`; what does not grow, or shrinks, is `0 B`."""
    return size(max(0, math.floor(value)))
