"""From a synthetic job and its runs to what the report shows of it."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpudoctor.lang import say
from gpudoctor.model.run import MemoryRow, SyntheticSummary

if TYPE_CHECKING:
    from gpudoctor.estimate import Estimate
    from gpudoctor.estimate.flops import StepFlops
    from gpudoctor.estimate.measure import MeasuredEstimate
    from gpudoctor.estimate.synthetic.feasibility import Synthetic
    from gpudoctor.model.run import RunSummary

_ENGINE_ROWS = frozenset({"load"})
"""Instants that an engine or a wrapper makes otherwise: buckets and master copies are there from the start."""


def title_of(plan: "Synthetic") -> str:
    """The job in a line: model, method, and the rest in words."""
    from gpudoctor.estimate.answer import label
    from gpudoctor.report.estimate_words import job_text

    return say(
        "{name}, {label}, {job_text}", name=plan.shape.name, label=label(plan.estimate), job_text=job_text(plan.job)
    )


def summary_of(
    plan: "Synthetic", script: Path, compared: "MeasuredEstimate | None", run: "RunSummary | None"
) -> SyntheticSummary:
    """Everything in numbers. `compared` is the memory run, `run` the first run's numbers."""
    from gpudoctor.estimate.answer import label
    from gpudoctor.estimate.flops import step_work
    from gpudoctor.report.estimate_words import job_text

    shown = _estimate(plan, compared)
    measurement = compared.measurement if compared is not None else None
    machine = measurement.machine if measurement is not None else None
    memory = run.memory if run is not None else None
    return SyntheticSummary(
        model=plan.shape.name, method=label(plan.estimate), parameters=plan.shape.parameters.total,
        job=job_text(plan.job), script=str(script), kind=plan.place.kind, device=plan.place.name,
        device_bytes=plan.place.bytes, ranks=plan.job.world, versions=dict(machine.versions) if machine else {},
        memory=_rows(plan, compared), memory_ended=_ended(compared), notes=_notes(compared),
        assumptions=plan.assumptions, estimated_peak=shown.total_bytes,
        run_peak=memory.allocated if memory is not None else None,
        run_resident=memory.rss if memory is not None else None,
        **_speed(plan, step_work(plan.shape, plan.job), run), estimate=_object(plan, shown, compared),
    )  # fmt: skip


def _estimate(plan: "Synthetic", compared: "MeasuredEstimate | None") -> "Estimate":
    """As it is where it ran."""
    if compared is not None:
        return compared.estimate
    from gpudoctor.estimate.measure.cpu import on_cpu

    return on_cpu(plan.estimate, foreach=False) if plan.place.kind == "cpu" else plan.estimate


def _rows(plan: "Synthetic", compared: "MeasuredEstimate | None") -> tuple[MemoryRow, ...]:
    if compared is None:
        return ()
    left_out = _ENGINE_ROWS if plan.engine is not None or plan.job.world > 1 else frozenset()
    return tuple(
        MemoryRow(instant=row.instant, title=row.title, estimated=row.predicted, measured=row.measured)
        for row in compared.rows
        if row.instant not in left_out
    )


def _ended(compared: "MeasuredEstimate | None") -> str:
    if compared is None:
        return say("nothing was measured")
    found = compared.measurement
    if not found.said and found.last is None:
        return say("it made too few steps")
    return (
        say("{ending}: {said} (reached: {reached})", ending=found.ending.value, said=found.said, reached=found.reached)
        if found.said
        else ""
    )


def _notes(compared: "MeasuredEstimate | None") -> tuple[str, ...]:
    if compared is None:
        return ()
    from gpudoctor.report.estimate_words import measured_notes

    return (*measured_notes(compared), *compared.estimate.notes)


def _speed(plan: "Synthetic", work: "StepFlops", run: "RunSummary | None") -> dict[str, Any]:
    """How fast it ran, all ranks together."""
    from gpudoctor.model.peaks import peak_flops

    world = plan.job.world
    one = peak_flops(plan.place.name) if plan.place.kind == "cuda" else None
    found: dict[str, Any] = {
        "flops_per_step": world * work.total, "tokens_per_step": world * work.tokens,
        "peak_flops": world * one if one is not None else None,
    }  # fmt: skip
    if run is None or run.step_seconds is None or run.step_seconds.mean <= 0:
        return found
    seconds = run.step_seconds.mean
    done = world * work.total / seconds
    return found | {
        "step_seconds": seconds, "tokens_per_second": world * work.tokens / seconds, "flops_per_second": done,
        "mfu": done / found["peak_flops"] if found["peak_flops"] else None,
    }  # fmt: skip


def _object(plan: "Synthetic", shown: "Estimate", compared: "MeasuredEstimate | None") -> dict[str, Any]:
    """The estimate as plain data, the measurement in it."""
    from gpudoctor.estimate.answer import Answer
    from gpudoctor.report.estimate_json import estimate_object

    answer = Answer(
        shape=plan.shape, estimates=(shown,), device=plan.place.device, own=True, assumptions=plan.assumptions,
        measured=compared,
    )  # fmt: skip
    return estimate_object(answer)
