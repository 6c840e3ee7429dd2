"""The report after the trials: proofs on the remedies, findings in the order of proof, the verdict."""

from collections.abc import Mapping
from dataclasses import replace

from gpudoctor.model import Ranked, Report
from gpudoctor.model.proof import Conclusion, Proof, TrialRow, TrialSummary
from gpudoctor.trial.session import Session


def proven_report(report: Report, session: Session, trial: TrialSummary) -> Report:
    """The report with proofs, ranked by them: what breaks the job first, then measured gains, then the rest."""
    proofs = {
        (item.candidate.item.rank, item.candidate.remedy.id): proof
        for item in session.attempts
        if item.candidate is not None and (proof := item.tried.proof()) is not None
    }
    gains = {
        item.candidate.item.rank: item.ratio
        for item in session.attempts
        if item.candidate is not None and item.ratio is not None
    }
    marked = [_marked(item, proofs) for item in report.findings]
    marked.sort(key=lambda item: (item.finding.cost.breaks is None, -gains.get(item.rank, 0.0), item.rank))
    findings = tuple(_placed(item, place, gains.get(item.rank)) for place, item in enumerate(marked, start=1))
    verdict = verdict_words(trial, report.summary.verdict, session.stopped)
    return replace(report, findings=findings, summary=replace(report.summary, verdict=verdict), trial=trial)


def _marked(item: Ranked, proofs: Mapping[tuple[int, str], Proof]) -> Ranked:
    """A finding's remedies with their proofs, the tried ones first."""
    remedies = [replace(remedy, proof=proofs.get((item.rank, remedy.id))) for remedy in item.remedies]
    remedies.sort(key=lambda remedy: -remedy.proof.ratio if remedy.proof else 0.0)
    return replace(item, remedies=tuple(remedies))


def _placed(item: Ranked, place: int, gain: float | None) -> Ranked:
    reason = f"proven: {gain:.2f}x measured" if gain is not None else item.reason
    return replace(item, rank=place, reason=reason)


_WHOLE = 100.0
"""Samples a second from which on a fraction of one is noise."""
_NO_TRIAL = (Conclusion.NOT_TRIED, Conclusion.MEASURED, Conclusion.TOO_MUCH)


def verdict_words(trial: TrialSummary, diagnosis: str, stopped: str = "") -> str:
    """One or two sentences: what is proven first; the diagnosis where nothing was tried."""
    tried = [row for row in trial.rows if row.conclusion not in _NO_TRIAL]
    proven = [row for row in tried if row.conclusion is Conclusion.PROVEN]
    early = f" The trials ended early: {stopped}." if stopped else ""
    found = _search_words(trial)
    if not tried:
        return f"{found or diagnosis}{early}"
    if not proven:
        count = f"{len(tried)} change" + ("" if len(tried) == 1 else "s")
        return f"Nothing that was tried makes it clearly faster ({count} tried).{early} {found or diagnosis}"
    best, together = proven[0], trial.together
    joined = together is not None and together.conclusion is Conclusion.PROVEN
    if joined and together is not None and _ratio(together) >= _ratio(best):
        best = together
    proof = best.proof
    assert proof is not None
    what = f"{len(proven)} changes together" if best is together else best.title
    loss = f"loss {proof.loss}" if proof.loss else "no loss was seen"
    per = " a sample" if proof.per == "sample" else ""
    interval = f"({proof.low:.2f} to {proof.high:.2f})"
    return f"Proven: {proof.ratio:.2f}x as fast{per} {interval} with {what}, {loss}.{early} {found}".rstrip()


def _search_words(trial: TrialSummary) -> str:
    """What a search has found; empty without one."""
    ran = [row for row in trial.rows if row.conclusion is Conclusion.MEASURED]
    if not ran:
        return ""
    rates = [row for row in ran if row.samples_per_second is not None]
    fastest = max(rates, key=lambda row: row.samples_per_second or 0.0, default=None)
    words = f"The largest that ran is {ran[-1].title}"
    if fastest is not None:
        rate = fastest.samples_per_second or 0.0
        words += f"; the most samples a second had {fastest.title} ({rate:,.{0 if rate >= _WHOLE else 2}f})"
    return words + "."


def _ratio(row: TrialRow) -> float:
    return row.proof.ratio if row.proof else 0.0
