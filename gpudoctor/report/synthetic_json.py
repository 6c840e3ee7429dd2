"""A synthetic job as plain data: the report's `synthetic`."""

from gpudoctor.model import Json
from gpudoctor.model.run import SyntheticSummary

JsonObject = dict[str, Json]


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
