"""The report after the trials: proofs on the remedies, findings in the order of proof, the verdict."""

from collections.abc import Mapping
from dataclasses import replace

from gpudoctor.model import Ranked, Report
from gpudoctor.model.proof import Conclusion, Proof, TrialSummary
from gpudoctor.trial.session import Session


def proven_report(report: Report, session: Session, trial: TrialSummary) -> Report:
    """The report with proofs, ranked by them: what breaks the job first, then measured gains, then the rest."""
    proofs = {
        (item.item.rank, item.remedy.id): proof
        for item, tried in session.tried
        if (proof := tried.proof()) is not None
    }
    gains = {
        item.item.rank: tried.decision.ratio
        for item, tried in session.tried
        if tried.decision is not None and tried.conclusion() is Conclusion.PROVEN
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


def verdict_words(trial: TrialSummary, diagnosis: str, stopped: str = "") -> str:
    """One or two sentences: what is proven first; the diagnosis where nothing was tried."""
    tried = [row for row in trial.rows if row.conclusion is not Conclusion.NOT_TRIED]
    proven = [row for row in tried if row.conclusion is Conclusion.PROVEN]
    if stopped:
        return f"{diagnosis} The trials ended early: {stopped}."
    if not tried:
        return diagnosis
    if not proven:
        count = f"{len(tried)} change" + ("" if len(tried) == 1 else "s")
        return f"Nothing that was tried makes it clearly faster ({count} tried). {diagnosis}"
    best = proven[0]
    together = trial.together
    if together is not None and together.proof is not None and together.conclusion is Conclusion.PROVEN:
        best = together if together.proof.ratio >= (best.proof.ratio if best.proof else 0.0) else best
    assert best.proof is not None
    proof = best.proof
    what = f"{len(proven)} changes together" if best is together else best.title
    loss = f", loss {proof.loss}" if proof.loss else ", no loss was seen"
    return f"Proven: {proof.ratio:.2f}x as fast ({proof.low:.2f} to {proof.high:.2f}) with {what}{loss}."
