"""From a synthetic job and its runs to what the report shows of it."""

import platform
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpudoctor.lang import say
from gpudoctor.model.run import MemoryRow, SyntheticSummary

if TYPE_CHECKING:
    from gpudoctor.estimate.flops import StepFlops
    from gpudoctor.estimate.synthetic.feasibility import Synthetic
    from gpudoctor.model.run import RunSummary

_PEAK = say("the peak of the whole first run")


def title_of(plan: "Synthetic") -> str:
    """The job in a line: model, method, and the rest in words."""
    from gpudoctor.estimate.answer import label
    from gpudoctor.report.estimate_words import job_text

    return say(
        "{name}, {label}, {job_text}", name=plan.shape.name, label=label(plan.estimate), job_text=job_text(plan.job)
    )


def summary_of(plan: "Synthetic", script: Path, run: "RunSummary | None") -> SyntheticSummary:
    """Everything in numbers; `run` has those of the first run."""
    from gpudoctor.estimate.answer import Answer, label
    from gpudoctor.estimate.flops import step_work
    from gpudoctor.report.estimate_json import estimate_object
    from gpudoctor.report.estimate_words import job_text

    shown = plan.estimate
    memory = run.memory if run is not None else None
    peak = memory.allocated if memory is not None else None
    rows = [MemoryRow(instant="peak", title=_PEAK, estimated=shown.total_bytes, measured=peak)] if peak else []
    answer = Answer(
        shape=plan.shape, estimates=(shown,), device=plan.place.device, own=True, assumptions=plan.assumptions
    )
    return SyntheticSummary(
        model=plan.shape.name, method=label(shown), parameters=plan.shape.parameters.total,
        job=job_text(plan.job), script=str(script), kind=plan.place.kind, device=plan.place.name,
        device_bytes=plan.place.bytes, ranks=plan.job.world, versions=_versions(), memory=tuple(rows),
        notes=shown.notes, assumptions=plan.assumptions, estimated_peak=shown.total_bytes, run_peak=peak,
        run_resident=memory.rss if memory is not None else None,
        **_speed(plan, step_work(plan.shape, plan.job), run), estimate=estimate_object(answer),
    )  # fmt: skip


def _versions() -> dict[str, str]:
    """Installed releases of what decides the bytes."""
    from importlib.metadata import PackageNotFoundError, version

    found = {"python": platform.python_version()}
    for name in ("torch", "transformers", "peft", "bitsandbytes"):
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


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
