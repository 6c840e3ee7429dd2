"""The numbers of a window, as reports carry those of a run."""

from gpudoctor.analysis.live.stack_shares import blind
from gpudoctor.model.run import LineShare, RunGpu, RunMemory, RunSummary, Spread
from gpudoctor.model.signs.process import GpuWindow, ProcessWindow, Series
from gpudoctor.report.run_words import phase_shares

_LINES = 12


def summarise(window: ProcessWindow) -> RunSummary:
    """Phases and lines by share of the stack samples, memory, GPUs: the `run` of a report."""
    steps = [rank.steps for rank in window.ranks if rank.steps]
    slowest = max((step.seconds for step in steps), default=None)
    first = window.ranks[0]
    counts: dict[tuple[str, int, str], int] = {}
    for place in window.places:
        if place.path:
            key = (place.path, place.line, place.function)
            counts[key] = counts.get(key, 0) + place.count
    ordered = sorted(counts.items(), key=lambda item: -item[1])[:_LINES]
    return RunSummary(
        recording=" ".join(str(rank.pid) for rank in window.ranks),
        origin="watch",
        command=first.command,
        seconds=window.t,
        steps=max((step.step for step in steps), default=0),
        ranks=len(window.ranks),
        step_seconds=None if slowest is None else _all(slowest),
        phases=phase_shares(window.ranks),
        gain_unknown=blind(window),
        memory=RunMemory(
            rss=max(rank.rss for rank in window.ranks),
            tree_rss=sum(int(rank.tree_rss.last) for rank in window.ranks if rank.tree_rss.values),
            machine_limit=window.host.memory_total or None,
        ),
        gpus=tuple(_gpu(gpu) for gpu in window.gpus),
        lines=tuple(
            [
                LineShare(path=path, line=line, function=function, share=count / window.samples)
                for (path, line, function), count in ordered
            ]
        ),
        samples=window.samples,
        lost_samples=window.lost,
    )


def _all(value: float) -> Spread:
    """A live file has one number; what it varies by is not known."""
    nan = float("nan")
    return Spread(median=value, mean=value, min=nan, max=nan, std=nan, p10=nan, p90=nan)


def _gpu(gpu: GpuWindow) -> RunGpu:
    return RunGpu(
        name=gpu.name,
        utilization=_known(gpu.busy),
        sm_active=_known(gpu.sm),
        memory=max(gpu.memory.known(), default=None),
        power=_known(gpu.power),
        temperature=max(gpu.temperature.known(), default=None),
    )


def _known(series: Series) -> float | None:
    mean = series.mean
    return mean if mean == mean else None
