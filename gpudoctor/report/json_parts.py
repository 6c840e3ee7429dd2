"""Parts of the JSON report as plain data: its `log`, `run`, `synthetic`, `preflight`, proofs and trials."""

import dataclasses
import math
from collections.abc import Mapping
from enum import Enum

from gpudoctor.model import Json, SourceSpan
from gpudoctor.model.log_message import LogMoment, LogSummary
from gpudoctor.model.proof import Cure, Proof, Replay, TrialRow, TrialSummary
from gpudoctor.model.run import RunSummary, SyntheticSummary
from gpudoctor.model.signs.preflight import Preflight

# The log as plain data: the report's `log`.

JsonObject = dict[str, Json]


def log_object(log: LogSummary) -> JsonObject:
    """What was read, and the time line with the role of each message."""
    return {
        "files": list(log.files),
        "lines": log.lines,
        "bytes": log.bytes,
        "ranks": list(log.ranks),
        "world": log.world,
        "last_step": log.last_step,
        "rank": log.rank,
        "finished": log.finished,
        "died": log.died,
        "moments": [_moment(item) for item in log.moments],
    }


def _moment(item: LogMoment) -> JsonObject:
    return {
        "role": item.role,
        "code": item.code or None,
        "kind": item.kind,
        "path": item.path,
        "line": item.line,
        "last_line": item.last_line,
        "count": item.count,
        "rank": item.rank,
        "node": item.node or None,
        "time": item.time or None,
        "step": item.step,
        "text": item.text,
    }


# The `run` of the JSON report: the keys of the schema; null where something was not recorded.


def run_object(run: RunSummary) -> JsonObject:
    """A run as plain data, without its series."""
    spreads: JsonObject = {name: _plain(spread) for name, spread in run.throughput.spreads.items()}
    return {
        "recording": run.recording,
        "origin": run.origin,
        "command": list(run.command),
        "seconds": run.seconds,
        "exit_code": run.exit_code,
        "signal": run.signal,
        "stopped_by": run.stopped_by,
        "healthy": run.healthy,
        "steps": run.steps,
        "steady_steps": run.steady_steps,
        "ranks": run.ranks,
        "marker": run.marker,
        "warm_up_seconds": run.warm_up_seconds,
        "start_seconds": run.start_seconds,
        "step_seconds": _plain(run.step_seconds) if run.step_seconds else None,
        "throughput": {
            "steps_per_second": run.throughput.steps_per_second,
            "samples_per_second": run.throughput.samples_per_second,
            "tokens_per_second": run.throughput.tokens_per_second,
            "mfu": run.throughput.mfu,
            "spread": spreads,
        },
        "phases": dict(run.phases),
        "memory": _plain(run.memory),
        "gpus": [_plain(gpu) for gpu in run.gpus],
        "device_idle": run.device_idle,
        "gain_unknown": run.gain_unknown or None,
        "samples": run.samples,
        "lost_samples": run.lost_samples,
        "lines": [_plain(line) for line in run.lines],
        "warnings": [_plain(item) for item in run.warnings],
    }


def _plain(value: object) -> JsonObject:
    return dict(dataclasses.asdict(value))  # type: ignore[call-overload]  # one of model.run's


# A synthetic job as plain data: the report's `synthetic`.


def synthetic_object(job: SyntheticSummary) -> JsonObject:
    """Everything but the estimate, which stands beside it as the report's `estimate`."""
    return {
        "model": job.model,
        "method": job.method,
        "parameters": job.parameters,
        "job": job.job,
        "script": job.script,
        "kind": job.kind,
        "device": job.device,
        "device_bytes": job.device_bytes,
        "ranks": job.ranks,
        "versions": dict(job.versions),
        "memory": [
            {
                "instant": row.instant,
                "title": row.title,
                "estimated_bytes": row.estimated,
                "measured_bytes": row.measured,
                "ratio": round(row.ratio, 5) if row.measured else None,
            }
            for row in job.memory
        ],
        "memory_ended": job.memory_ended or None,
        "estimated_peak_bytes": job.estimated_peak,
        "run_peak_bytes": job.run_peak,
        "run_resident_bytes": job.run_resident,
        "step_seconds": job.step_seconds,
        "tokens_per_step": job.tokens_per_step,
        "tokens_per_second": job.tokens_per_second,
        "flops_per_step": job.flops_per_step,
        "flops_per_second": job.flops_per_second,
        "peak_flops": job.peak_flops,
        "mfu": job.mfu,
        "assumptions": list(job.assumptions),
        "notes": list(job.notes),
    }


# Proofs and trials as plain data.


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
        "leak": None,
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
        "began": None,
        "rank": replay.rank,
        "value": replay.value or None,
        "dtype": replay.dtype or None,
        "module": None,
        "module_class": None,
        "place": _span(replay.place),
        "site": None,
        "turned": None,
        "items": [],
        "names": list(replay.names),
        "precision": None,
        "finite": None,
        "eager": False,
        "seconds": replay.seconds,
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


# What nodes, cards and links reached, as plain data: the report's `preflight`.


def preflight_object(preflight: Preflight) -> JsonObject:
    """Every figure that was measured; keys are the fields of `gpudoctor.model.signs.preflight`."""
    names = [item.name for item in dataclasses.fields(preflight) if item.name != "before"]
    return {name: _value(getattr(preflight, name)) for name in names}


def _value(value: object) -> Json:
    if isinstance(value, Enum):
        return str(value.value)
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Mapping):
        return {str(key): _value(item) for key, item in value.items()}
    if isinstance(value, tuple):
        return [_value(item) for item in value]
    assert dataclasses.is_dataclass(value), value
    return {item.name: _value(getattr(value, item.name)) for item in dataclasses.fields(value)}
