"""The numbers of a window, as reports carry those of a run."""

from gpudoctor.model import Json
from gpudoctor.model.signs.process import LIVE_PHASES, GpuWindow, ProcessWindow

_LINES = 12


def summarise(window: ProcessWindow) -> Json:
    """Phases and lines by share of the stack samples, memory, GPUs: the `run` of a report."""
    steps = [rank.steps for rank in window.ranks if rank.steps]
    return {
        "steps": min((step.step for step in steps), default=None),
        "ranks": len(window.ranks),
        "seconds": window.t,
        "step_seconds": None if not steps else {"median": max(step.seconds for step in steps)},
        "phases": dict(phase_shares(window)),
        "lines": [*_lines(window)],
        "memory": {
            "rss": sum(rank.rss for rank in window.ranks),
            "tree_rss": sum(int(rank.tree_rss.last) for rank in window.ranks if rank.tree_rss.values),
        },
        "gpus": [_gpu(gpu) for gpu in window.gpus],
        "samples": window.samples,
        "lost_samples": window.lost,
        "window_seconds": window.length,
    }


def phase_shares(window: ProcessWindow) -> dict[str, float]:
    """Share of the loop's time by phase, largest first; exact where `gpudoctor run` records."""
    exact = [rank.steps.phases for rank in window.ranks if rank.steps and rank.steps.phases]
    if exact and len(exact) == len(window.ranks):
        names = {name for phases in exact for name in phases}
        shares = {name: sum(phases.get(name, 0.0) for phases in exact) / len(exact) for name in names}
    else:
        counts = window.phases
        total = sum(counts.values())
        shares = {name: counts[name] / total for name in LIVE_PHASES if counts.get(name)}
    return dict(sorted(shares.items(), key=lambda item: -item[1]))


def _lines(window: ProcessWindow) -> list[Json]:
    total = window.samples
    counts: dict[tuple[str, int, str], int] = {}
    for place in window.places:
        if place.path:
            key = (place.path, place.line, place.function)
            counts[key] = counts.get(key, 0) + place.count
    ordered = sorted(counts.items(), key=lambda item: -item[1])[:_LINES]
    return [
        {"path": path, "line": line, "function": function, "share": count / total}
        for (path, line, function), count in ordered
    ]


def _gpu(gpu: GpuWindow) -> Json:
    return {
        "index": gpu.index,
        "name": gpu.name,
        "utilization": gpu.busy.mean,
        "sm_active": gpu.sm.mean,
        "memory": gpu.memory.last,
        "memory_total": gpu.memory_total,
        "power": gpu.power.mean,
        "temperature": gpu.temperature.last,
        "clock": gpu.clock.mean,
    }
