"""Proofs and trials as plain data."""

import math

from gpudoctor.model import Json, SourceSpan
from gpudoctor.model.proof import Cure, LeakSearch, Proof, Replay, TrialRow, TrialSummary

JsonObject = dict[str, Json]


def proof_object(proof: Proof | None) -> JsonObject | None:
    """A remedy's `proof`; null before a trial."""
    if proof is None:
        return None
    memory: JsonObject | None = None
    if proof.memory is not None:
        memory = {"baseline": proof.memory[0], "candidate": proof.memory[1]}
    return {
        "ratio": _number(proof.ratio),
        "low": _number(proof.low),
        "high": _number(proof.high),
        "pairs": proof.pairs,
        "aside": proof.aside,
        "loss": proof.loss,
        "verdict": proof.verdict,
        "per": proof.per,
        "memory_bytes": memory,
        "cured": proof.cure.gone if proof.cure else None,
        "cure": _cure(proof.cure) if proof.cure else None,
    }


def _cure(cure: Cure) -> JsonObject:
    return {
        "code": cure.code,
        "words": cure.words,
        "steps": cure.steps,
        "also": list(cure.also),
        "baseline": cure.before,
        "candidate": cure.after,
        "unit": cure.unit or None,
    }


def _number(value: float) -> float | None:
    """Null where no pair was run."""
    return None if math.isnan(value) else value


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
        "protection_level": trial.protection_level or None,
        "not_sent": list(trial.not_sent),
        "kept_out": list(trial.kept_out),
        "changed": list(trial.changed),
        "compared": trial.compared or None,
        "patch": trial.patch or None,
        "patch_path": trial.patch_path or None,
        "kept": list(trial.kept),
        "leak": _leak(trial.leak) if trial.leak else None,
        "replay": _replay(trial.replay) if trial.replay else None,
    }


def _replay(replay: Replay) -> JsonObject:
    return {
        "code": replay.code,
        "step": replay.step,
        "reproduced": replay.reproduced,
        "reason": replay.reason or None,
        "cause": replay.cause.value if replay.cause else None,
        "words": replay.words or None,
        "operation": replay.operation or None,
        "operator": replay.operator or None,
        "phase": replay.phase or None,
        "began": replay.began,
        "rank": replay.rank,
        "value": replay.value or None,
        "dtype": replay.dtype or None,
        "module": replay.module or None,
        "module_class": replay.module_class or None,
        "place": _span(replay.place),
        "site": _span(replay.site),
        "turned": _span(replay.turned),
        "items": list(replay.items),
        "names": list(replay.names),
        "precision": replay.precision or None,
        "finite": replay.finite,
        "eager": replay.eager,
        "seconds": replay.seconds,
    }


def _leak(leak: LeakSearch) -> JsonObject:
    return {
        "code": leak.code,
        "bytes_per_step": leak.bytes_per_step,
        "steps": leak.steps,
        "holder": leak.holder or None,
        "place": _span(leak.place),
        "keep": leak.keep or None,
        "words": leak.words or None,
        "tries": [
            {
                "change": item.change,
                "place": _span(item.place),
                "bytes_per_step": item.bytes_per_step,
                "p": item.p,
                "outcome": item.outcome,
                "reason": item.reason or None,
            }
            for item in leak.tries
        ],
        "seconds": leak.seconds,
    }


def _span(span: SourceSpan | None) -> JsonObject | None:
    return {"path": span.path, "line": span.line, "text": span.text} if span else None


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
        "pairs": [
            {
                "baseline_seconds": pair.baseline,
                "candidate_seconds": pair.candidate,
                "candidate_first": pair.candidate_first,
                "aside": pair.aside,
            }
            for pair in row.pairs
        ],
    }
