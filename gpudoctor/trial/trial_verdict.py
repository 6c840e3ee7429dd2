"""The report after the trials: proofs on the remedies, findings in the order of proof, the verdict."""

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import median

from gpudoctor.lang import say, term
from gpudoctor.lang.message import concatenated, without
from gpudoctor.model import Applicability, Ranked, Remedy, Report
from gpudoctor.model.proof import TIME_RAN_OUT, Conclusion, Proof, TrialPair, TrialRow, TrialSummary
from gpudoctor.text import count, percent
from gpudoctor.trial.candidates import plan_of
from gpudoctor.trial.decision import LOOKS, SMALLEST_EFFECT, STALL_FLOOR, Decision
from gpudoctor.trial.paired_runs import Tried
from gpudoctor.trial.session import Attempt, TrialSession


def proven_report(report: Report, session: TrialSession, trial: TrialSummary) -> Report:
    """The report with proofs, ranked by them: what breaks the job first, then measured gains, then the rest."""
    remedies = [(attempt.candidate, attempt) for attempt in session.attempts if attempt.candidate is not None]
    tried = {(one.item.rank, one.remedy.id): attempt.tried for one, attempt in remedies}
    gains = {one.item.rank: attempt.ratio for one, attempt in remedies if attempt.ratio is not None}
    marked = []
    for item in report.findings:
        proven = sorted((_with_proof(item, remedy, tried) for remedy in item.remedies), key=_best_first)
        marked.append(replace(item, remedies=tuple(proven)))
    marked.sort(key=lambda item: (item.finding.cost.breaks is None, -gains.get(item.rank, 0.0), item.rank))
    findings = tuple(_placed(item, place, gains.get(item.rank)) for place, item in enumerate(marked, start=1))
    words = verdict_words(trial, report.summary.verdict, session.stopped, promise=report.summary.promise)
    return replace(report, findings=findings, summary=replace(report.summary, verdict=words), trial=trial)


def _with_proof(item: Ranked, remedy: Remedy, tried: Mapping[tuple[int, str], Tried]) -> Remedy:
    """The remedy with its proof; if the loss moved and must not, it is no cure, and its results may change."""
    found = tried.get((item.rank, remedy.id))
    proof = found.proof() if found is not None else None
    if found is None or proof is None or found.conclusion() is not Conclusion.MOVED:
        return replace(remedy, proof=proof)
    able = Applicability.UNSAFE if remedy.applicability is Applicability.SAFE else remedy.applicability
    return replace(remedy, proof=replace(proof, cure=None), applicability=able)


def _best_first(remedy: Remedy) -> tuple[int, float]:
    """What cures before what was measured, what was not tried last."""
    proof = remedy.proof
    if proof is None:
        return 2, 0.0
    cures = proof.cure is not None and bool(proof.cure.gone)
    return 0 if cures else 1, 0.0 if math.isnan(proof.ratio) else -proof.ratio


def _placed(item: Ranked, place: int, gain: float | None) -> Ranked:
    first = item.remedies[0].proof if item.remedies else None
    if first is not None and first.cure is not None and first.cure.gone:
        return replace(
            item, rank=place, reason=say("cured by {id}: {words}", id=item.remedies[0].id, words=first.cure.words)
        )
    reason = say("proven: {gain:.2f}x measured", gain=gain) if gain is not None else item.reason
    return replace(item, rank=place, reason=reason)


_NO_TRIAL = (Conclusion.NOT_TRIED, Conclusion.MEASURED, Conclusion.TOO_MUCH)


def verdict_words(trial: TrialSummary, diagnosis: str, stopped: str = "", *, promise: str = "") -> str:
    """One to three sentences: what is cured and proven first; the diagnosis where nothing is.

    `promise` is the sentence of the diagnosis that a trial without success takes back.
    """
    tried = [row for row in trial.rows if row.conclusion not in _NO_TRIAL]
    early = say(" The trials ended early: {stopped}.", stopped=stopped) if stopped else ""
    found = _search_words(trial)
    cured, faster = _cured_words(tried), _faster_words(tried, trial)
    if cured or faster:
        return concatenated(" ", (part for part in (cured, faster + early if faster else early.strip(), found) if part))
    if tried and promise:
        diagnosis = without(diagnosis, promise)
    if not tried:
        return (found or diagnosis) + early
    if all(row.conclusion is Conclusion.UNCLEAR and _is_open(row.proof, len(row.pairs)) for row in tried):
        return concatenated(" ", (_undecided_words(tried) + early, found or diagnosis))
    changes = count(len(tried), "change")
    vain = say("Nothing that was tried cures it or makes it clearly faster ({changes} tried).", changes=changes)
    return concatenated(" ", (found or diagnosis, vain + early))


def _undecided_words(tried: Sequence[TrialRow]) -> str:
    """That no trial came to an answer, and by how much runs of the same command differ."""
    laps = [[pair.baseline for pair in row.pairs] for row in tried]
    spread = max(max(each) / min(each) - 1 for each in laps)
    if spread < STALL_FLOOR:
        return say("Undecided: the time was too short. Give more with --budget.")
    return say(
        "Undecided: runs of the unchanged command differ by up to {spread}, as on a busy machine. "
        "Try again when it is idle, or with a longer --budget.",
        spread=percent(spread),
    )


def _is_open(found: Proof | Decision | None, pairs: int) -> bool:
    """Whether more pairs could say more: the interval still holds an effect that counts."""
    if found is None or pairs >= LOOKS[-1]:
        return 0 < pairs < LOOKS[-1]
    unclear = found.verdict == "no clear difference"
    return unclear and (found.high > 1 + SMALLEST_EFFECT or found.low < 1 / (1 + SMALLEST_EFFECT))


def _cured_words(tried: Sequence[TrialRow]) -> str:
    """What is cured, and by how much."""
    parts = []
    for row in tried:
        cure = row.proof.cure if row.proof else None
        if cure is not None and cure.gone and row.conclusion is Conclusion.CURED:
            parts.append(say("{name} by {id} ({words})", name=cure.name, id=row.name, words=cure.words))
    return say("Cured: {parts}.", parts=concatenated("; ", parts)) if parts else ""


def _faster_words(tried: Sequence[TrialRow], trial: TrialSummary) -> str:
    """The best that is proven to be faster."""
    proven = [
        row
        for row in tried
        if row.conclusion is Conclusion.PROVEN
        and row.proof
        and row.proof.verdict == "faster"
        and row.proof.loss != "moved"
    ]
    if not proven:
        return ""
    best, together = proven[0], trial.together
    joined = together is not None and together.conclusion is Conclusion.PROVEN
    if joined and together is not None and _ratio(together) >= _ratio(best):
        best = together
    proof = best.proof
    assert proof is not None
    count = together.title.count(",") + 1 if together is not None else 0
    what = say("{count} changes together", count=count) if best is together else best.title
    loss = say("loss {loss}", loss=term(proof.loss)) if proof.loss else say("no loss was seen")
    per = say(" a sample") if proof.per == "sample" else ""
    interval = say("({low:.2f} to {high:.2f})", low=proof.low, high=proof.high)
    return say(
        "Proven: {ratio:.2f}x as fast{per} {interval}, {loss}. The change: {what}.",
        ratio=proof.ratio,
        per=per,
        interval=interval,
        loss=loss,
        what=what,
    )


def _search_words(trial: TrialSummary) -> str:
    """What a search has found; empty without one."""
    ran = [row for row in trial.rows if row.conclusion is Conclusion.MEASURED]
    return say("The largest that ran is {title}.", title=ran[-1].title) if ran else ""


def _ratio(row: TrialRow) -> float:
    return row.proof.ratio if row.proof else 0.0


# The session's trials as data for the report.

_ORDER = list(Conclusion)


def summarise_trials(session: TrialSession) -> TrialSummary:
    """Everything in numbers; rows of remedies by what they have proven, those of a search as they came."""
    rows = [_row(item) for item in session.attempts]
    rows += [
        TrialRow(name=item.remedy.id, title=item.remedy.title, conclusion=Conclusion.NOT_TRIED, reason=item.reason)
        for item in session.untried
    ]
    every = session.attempts + ([session.together] if session.together else [])
    ratios = {row.name: row.proof.ratio for row in rows if row.proof and math.isfinite(row.proof.ratio)}
    rows.sort(key=lambda row: (_ORDER.index(row.conclusion), -ratios.get(row.name, 0.0)))
    windows = [window.seconds for item in every for window in item.tried.baseline]
    return TrialSummary(
        step_seconds=median(windows) if windows else None,
        warm_up_steps=session.bench.skip,
        steps=max(0, (session.bench.steps or 0) - session.bench.skip),
        rows=(*rows, *session.searched),
        together=_row(session.together) if session.together else None,
        seconds=time.monotonic() - session.began,
        budget=session.budget,
        patch=plan_of(session.worth_keeping).diff,
    )


def _row(item: Attempt) -> TrialRow:
    tried = item.tried
    conclusion = tried.conclusion()
    rates = [found.samples / found.seconds for found in tried.candidate if found.samples]
    memory = [found.memory for found in tried.candidate if found.memory is not None]
    aside = tried.decision.aside if tried.decision is not None else ()
    return TrialRow(
        name=item.name,
        title=item.title,
        conclusion=conclusion,
        reason=reason_of(tried, conclusion),
        proof=tried.proof(),
        step_seconds=tried.step_seconds(),
        samples_per_second=median(rates) if rates and len(rates) == len(tried.candidate) else None,
        memory=int(median(memory)) if memory else None,
        patch=item.candidate is not None and item.candidate.edits,
        pairs=tuple(
            TrialPair(
                baseline=pair.baseline,
                candidate=pair.candidate,
                candidate_first=pair.candidate_first,
                aside=index in aside,
            )
            for index, pair in enumerate(tried.pairs)
        ),
    )


def reason_of(tried: Tried, conclusion: Conclusion) -> str:
    """Why it failed or was not tried; of a cure what its sign did."""
    if tried.problem:
        return tried.problem
    if tried.cure is not None:
        return tried.cure.words
    if conclusion is Conclusion.UNCLEAR and _is_open(tried.decision, len(tried.pairs)):
        return say("the time ran out after {pairs}", pairs=count(len(tried.pairs), "pair"))
    return TIME_RAN_OUT if conclusion is Conclusion.NOT_TRIED else ""
