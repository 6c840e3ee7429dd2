"""Proofs and trials as plain data (DESIGN 6)."""

from gpudoctor.model import Json
from gpudoctor.model.proof import Proof, TrialRow, TrialSummary

JsonObject = dict[str, Json]


def proof_object(proof: Proof | None) -> JsonObject | None:
    """A remedy's `proof`; null before a trial."""
    if proof is None:
        return None
    memory: JsonObject | None = None
    if proof.memory is not None:
        memory = {"baseline": proof.memory[0], "candidate": proof.memory[1]}
    return {
        "ratio": proof.ratio,
        "low": proof.low,
        "high": proof.high,
        "pairs": proof.pairs,
        "aside": proof.aside,
        "loss": proof.loss,
        "verdict": proof.verdict,
        "per": proof.per,
        "memory_bytes": memory,
    }


def trial_object(trial: TrialSummary) -> JsonObject:
    """The report's `trial`."""
    return {
        "step_seconds": trial.step_seconds,
        "warm_up_steps": trial.warm_up_steps,
        "steps": trial.steps,
        "rows": [_row(row) for row in trial.rows],
        "together": _row(trial.together) if trial.together else None,
        "seconds": trial.seconds,
        "budget_seconds": trial.budget,
        "protection": trial.protection,
        "kept_out": list(trial.kept_out),
        "patch": trial.patch or None,
        "patch_path": trial.patch_path or None,
        "kept": list(trial.kept),
    }


def _row(row: TrialRow) -> JsonObject:
    return {
        "name": row.name,
        "title": row.title,
        "conclusion": row.conclusion.value,
        "reason": row.reason or None,
        "step_seconds": row.step_seconds,
        "samples_per_second": row.samples_per_second,
        "memory_bytes": row.memory,
        "patch": row.patch,
        "proof": proof_object(row.proof),
    }
