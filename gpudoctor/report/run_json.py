"""The `run` of the JSON report: the keys of the schema; null where something was not recorded."""

import dataclasses

from gpudoctor.model import Json
from gpudoctor.model.run import RunSummary

JsonObject = dict[str, Json]


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
    }


def _plain(value: object) -> JsonObject:
    return dict(dataclasses.asdict(value))  # type: ignore[call-overload]  # one of model.run's
