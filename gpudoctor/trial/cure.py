"""Proof by the ailment's own sign: with the remedy in place the command runs again, and is examined again.

What is not about speed (NaN, a wrong loss, a leak, a death) is proven by its absence: the check that found it
looks at the re-run, of as many steps, and finds nothing. A check that could not judge proves nothing.
"""

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from gpudoctor.analysis.run.training.card import changed
from gpudoctor.lang import say
from gpudoctor.model import Confidence, Found, Passed, Ranked, Report, Skipped
from gpudoctor.model.proof import BadStepDetail, Cure
from gpudoctor.model.signs.recording import Recording
from gpudoctor.trial.trial_runner import Arm, TrialRunner
from gpudoctor.trial.window import steps_made

Diagnose = Callable[[Path, Arm, frozenset[str]], Report]
"""Examines a run's folder for some codes, with the arm's sources in place of the user's."""

_CARD = "TRAIN"
_TOPICS = ("NUM", "LOOP", "MEM", "FAIL", _CARD)
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


def is_timed(item: Ranked) -> bool:
    """Whether pairs of runs say more of its remedy: what is trained otherwise shows in the card, not in the time."""
    return not item.finding.code.startswith(_CARD)


class Cures:
    """Runs arms again and looks whether the baseline's ailments are gone."""

    def __init__(
        self, bench: TrialRunner, diagnose: Diagnose, ranked: Sequence[Ranked], recording: Recording, seconds: float
    ) -> None:
        """`seconds` is how long the baseline took."""
        self._bench = bench
        self._diagnose = diagnose
        self.signs = [item for item in ranked if has_sign(item)]
        """What it looks for, the first finding first."""
        self._recording = recording
        self._limit = _SPARE + _SLOWER * seconds
        self._died = recording.end is not None and recording.end.failed

    def of(self, item: Ranked, arm: Arm, deadline: float) -> Cure | str:
        """Whether the arm cures a finding; a clause where its run says nothing."""
        made = max(1, steps_made(self._recording))
        wanted = made + _AFTER if self._died else made
        detail = item.finding.detail
        if isinstance(detail, BadStepDetail) and not self._died:
            wanted = min(made, detail.step + _AFTER)
        limit = min(self._limit, deadline - time.monotonic())
        lap = self._bench.look(arm, steps=wanted, seconds=limit, machine=True)
        if lap.finished.failed and not self._died:
            return lap.problem
        codes = frozenset(str(sign.finding.code) for sign in self.signs)
        report = self._diagnose(Path(lap.recording.path), arm, codes)
        gone = {str(outcome.code) for outcome in report.outcomes if isinstance(outcome, Passed)} & codes
        there = {str(outcome.code) for outcome in report.outcomes if isinstance(outcome, Found)} & codes
        code = str(item.finding.code)
        skipped = [item.reason for item in report.outcomes if isinstance(item, Skipped) and item.code == code]
        reason = skipped[0] if skipped else ""
        state = True if code in gone else False if code in there else None
        if self._died and lap.finished.failed:
            state = False
        shows = {str(each.code): each.judges for each in report.outcomes if isinstance(each, Passed | Found)}
        line = shows.get(code, "") if code.startswith(_CARD) else ""
        number = changed(line, self._recording, lap.recording)
        made = steps_made(lap.recording)
        if state and lap.problem and made < wanted:
            state = None
            reason = say("{made} of {wanted} steps: {problem}", made=made, wanted=wanted, problem=lap.problem)
        elif state and not self._died and made < _ENOUGH * wanted:
            # One that came to its own end may have made fewer: a larger batch does that.
            state, reason = None, say("it made {made} of {wanted} steps", made=made, wanted=wanted)
        return Cure(
            code=code, name=item.finding.name, gone=state, words=number or _words(state, reason, self._died), steps=made
        )


def _words(state: bool | None, reason: str, died: bool) -> str:
    if state is None and reason:
        return say("the re-run does not show it ({reason})", reason=reason)
    if state is None:
        return say("the re-run does not show it")
    if died:
        return say("the command gets past the step where it died") if state else say("the command dies as before")
    return say("not found any more in as many steps") if state else say("found again, as before")
