"""A run in words, for every format that people read."""

from collections import Counter
from collections.abc import Iterator

from gpudoctor.model.run import RunSummary
from gpudoctor.text import count, duration, percent

LEAST_SHARE = 0.005
"""Phases below this share of a step are not shown."""


def run_facts(run: RunSummary) -> Iterator[str]:
    """Facts for a first line: steps, time a step, speed, ranks, GPUs."""
    if run.steps:
        yield count(run.steps, "step")
    if run.samples:
        yield count(run.samples, "stack sample")
    if run.step_seconds is not None:
        yield f"{duration(run.step_seconds.mean)} a step"
    rates = run.throughput
    if rates.steps_per_second:
        yield f"{rate_text(rates.steps_per_second)} steps/s"
    if rates.tokens_per_second:
        yield f"{rate_text(rates.tokens_per_second)} tokens/s"
    elif rates.samples_per_second:
        yield f"{rate_text(rates.samples_per_second)} samples/s"
    if rates.mfu:
        yield f"MFU {percent(rates.mfu)}"
    if run.ranks:
        yield count(run.ranks, "rank")
    for name, cards in Counter(gpu.name for gpu in run.gpus if gpu.name).items():
        yield name if cards == 1 else f"{cards} x {name}"


def phase_rows(run: RunSummary) -> list[tuple[str, float, str]]:
    """Phase, share and time a step, the largest first and `other` last; empty without steady steps."""
    if run.step_seconds is None and not run.samples:
        return []
    rows = sorted(run.phases.items(), key=lambda item: (item[0] == "other", -item[1]))
    mean = run.step_seconds.mean if run.step_seconds else None
    return [
        (name.replace("_", " "), share, duration(share * mean) if mean is not None else "")
        for name, share in rows
        if share >= LEAST_SHARE
    ]


def rate_text(value: float) -> str:
    """A rate with three digits: 24.5, 1,240."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
