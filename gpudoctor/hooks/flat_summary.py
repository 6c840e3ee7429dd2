"""`gpudoctor.summary(recording)`: the numbers of a report in a flat dict, for wandb, MLflow, TensorBoard."""

import os
from collections.abc import Mapping
from typing import Any

_PREFIX = "gpudoctor"


def summary(recording: Any) -> dict[str, float]:
    """Numbers of a recording: a folder, a zip file, or what `gpudoctor.record()` gave. Names end with the unit.

    `wandb.log(gpudoctor.summary(recording))` or `mlflow.log_metrics(...)`. Raises `IncompleteError` where the
    recording cannot be read.
    """
    if hasattr(recording, "summary"):
        own: dict[str, float] = recording.summary()
        return own
    from gpudoctor.hooks.rendered_report import rendered_report
    from gpudoctor.model.external_files import load_json

    return flat(load_json(rendered_report(os.fspath(recording), "json")))


def flat(report: Mapping[str, Any]) -> dict[str, float]:
    """The numbers of a JSON report; what was not measured is left out."""
    counts = report["summary"]
    found: dict[str, Any] = {f"findings_{word}": counts[word] for word in ("error", "warning", "note")}
    run = report.get("run") or {}
    for word in ("steps", "ranks", "seconds", "warm_up_seconds"):
        found[word] = run.get(word)
    for word, value in (run.get("step_seconds") or {}).items():
        found[f"step_seconds/{word}"] = value
    for word in ("steps_per_second", "samples_per_second", "tokens_per_second", "mfu"):
        found[f"throughput/{word}"] = (run.get("throughput") or {}).get(word)
    for word, value in (run.get("phases") or {}).items():
        found[f"phase_share/{word}"] = value
    for word, value in (run.get("memory") or {}).items():
        found[f"memory_bytes/{word}"] = value
    for index, gpu in enumerate(run.get("gpus") or ()):
        found |= {f"gpu{index}/{word}": value for word, value in gpu.items() if word != "index"}
    return {f"{_PREFIX}/{name}": float(value) for name, value in found.items() if _number(value)}


def _number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
