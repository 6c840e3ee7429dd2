"""The session's trials as data for the report."""

import math
import time
from collections.abc import Iterator
from statistics import median

from gpudoctor.lang import say
from gpudoctor.model.proof import TIME_RAN_OUT, Conclusion, TrialPair, TrialRow, TrialSummary
from gpudoctor.trial.candidates import Untried, plan_of
from gpudoctor.trial.decision import LOOKS, SMALLEST_EFFECT
from gpudoctor.trial.paired_runs import Tried
from gpudoctor.trial.session import Attempt, TrialSession

_ORDER = list(Conclusion)


def summarise_trials(session: TrialSession) -> TrialSummary:
    """Everything in numbers; rows of remedies by what they have proven, those of a search as they came."""
    rows = [_row(item) for item in session.attempts]
    rows += [_untried(item) for item in session.untried]
    every = session.attempts + ([session.together] if session.together else [])
    windows = [window.seconds for item in every for window in item.tried.baseline]
    return TrialSummary(
        step_seconds=median(windows) if windows else None,
        warm_up_steps=session.bench.skip,
        steps=max(0, (session.bench.steps or 0) - session.bench.skip),
        rows=(*sorted(rows, key=_place), *session.searched),
        together=_row(session.together) if session.together else None,
        seconds=time.monotonic() - session.began,
        budget=session.budget,
        patch=plan_of(session.worth_keeping).diff,
    )


def _row(item: Attempt) -> TrialRow:
    tried = item.tried
    conclusion = tried.conclusion()
    return TrialRow(
        name=item.name,
        title=item.title,
        conclusion=conclusion,
        reason=reason_of(tried, conclusion),
        proof=tried.proof(),
        step_seconds=tried.step_seconds(),
        samples_per_second=_rate(tried),
        memory=_memory(tried),
        patch=item.candidate is not None and item.candidate.edits,
        pairs=tuple(_pairs(tried)),
    )


def _pairs(tried: Tried) -> Iterator[TrialPair]:
    aside = tried.decision.aside if tried.decision is not None else ()
    for index, pair in enumerate(tried.pairs):
        yield TrialPair(
            baseline=pair.baseline, candidate=pair.candidate, candidate_first=pair.candidate_first, aside=index in aside
        )


def reason_of(tried: Tried, conclusion: Conclusion) -> str:
    """Why it failed or was not tried; of a cure what its sign did."""
    if tried.problem:
        return tried.problem
    if tried.cure is not None:
        return tried.cure.words
    if conclusion is Conclusion.UNCLEAR and _cut_short(tried):
        return say("the time ran out after {pairs} pairs", pairs=len(tried.pairs))
    return TIME_RAN_OUT if conclusion is Conclusion.NOT_TRIED else ""


def _cut_short(tried: Tried) -> bool:
    """Whether more pairs could have said more: the interval still holds an effect that counts."""
    decision = tried.decision
    if decision is None or len(tried.pairs) >= LOOKS[-1]:
        return False
    return decision.high > 1 + SMALLEST_EFFECT or decision.low < 1 / (1 + SMALLEST_EFFECT)


def _untried(item: Untried) -> TrialRow:
    return TrialRow(name=item.remedy.id, title=item.remedy.title, conclusion=Conclusion.NOT_TRIED, reason=item.reason)


def _rate(tried: Tried) -> float | None:
    rates = [item.samples / item.seconds for item in tried.candidate if item.samples]
    return median(rates) if rates and len(rates) == len(tried.candidate) else None


def _memory(tried: Tried) -> int | None:
    known = [item.memory for item in tried.candidate if item.memory is not None]
    return int(median(known)) if known else None


def _place(row: TrialRow) -> tuple[int, float]:
    ratio = row.proof.ratio if row.proof else 0.0
    return _ORDER.index(row.conclusion), 0.0 if math.isnan(ratio) else -ratio
