"""A synthetic job in words and rows, for every format that people read."""

from gpudoctor.model.run import SyntheticSummary
from gpudoctor.report.run_words import rate_text
from gpudoctor.text import duration, percent, size

_SCALES = ((1e15, "PFLOP/s"), (1e12, "TFLOP/s"), (1e9, "GFLOP/s"), (1e6, "MFLOP/s"))


def job_words(job: SyntheticSummary) -> str:
    """What it is: `llama-2-7b, QLoRA r16, sequence 2,048, ...; on 2 ranks`."""
    ranks = f"; {job.ranks} ranks" if job.ranks > 1 else ""
    return f"{job.model}, {job.method}, {job.job}{ranks}"


def memory_heading(job: SyntheticSummary) -> str:
    """Whose memory the rows are of."""
    where = "the CPU's memory" if job.kind == "cpu" else job.device
    each = ", the fullest rank" if job.ranks > 1 else ""
    return f"Memory by instant, {where}{each}"


def memory_rows(job: SyntheticSummary) -> list[tuple[str, str, str, str]]:
    """Instant, estimated, measured, estimated over measured."""
    rows = [
        (
            row.title,
            size(row.estimated),
            size(row.measured),
            f"{row.ratio - 1:+.1%}" if row.measured else "",
        )
        for row in job.memory
    ]
    if job.run_peak:
        ratio = job.estimated_peak / job.run_peak - 1
        said = "the peak of the whole first run"
        rows.append((said, size(job.estimated_peak), size(job.run_peak), f"{ratio:+.1%}"))
    return rows


def speed_words(job: SyntheticSummary) -> str:
    """Step time, tokens, operations, utilisation; empty where it made too few steps."""
    if job.step_seconds is None or job.tokens_per_second is None or job.flops_per_second is None:
        return ""
    unit = "patches" if job.estimate.get("model", {}).get("kind") == "vision" else "tokens"
    parts = [
        f"{duration(job.step_seconds)} a step", f"{rate_text(job.tokens_per_second)} {unit}/s",
        f"{flops_text(job.flops_per_second)} of the model",
    ]  # fmt: skip
    if job.mfu is not None and job.peak_flops is not None:
        parts.append(f"MFU {percent(job.mfu)} of {flops_text(job.peak_flops)} (dense bf16)")
    elif job.kind == "cpu":
        parts.append("no MFU: a CPU's peak is not known")
    else:
        parts.append(f"no MFU: gpudoctor does not know the peak FLOP/s of {job.device}")
    return ", ".join(parts)


def flops_text(value: float) -> str:
    """Operations a second with three digits: `41.2 TFLOP/s`."""
    for step, unit in _SCALES:
        if value >= step:
            return f"{value / step:.3g} {unit}"
    return f"{value:.3g} FLOP/s"


def small_print(job: SyntheticSummary) -> list[str]:
    """What is to be known of the numbers, a sentence each."""
    said = [f"assumed: {text}" for text in job.assumptions]
    said += [f"memory was not measured to the end: {job.memory_ended}"] if job.memory_ended else []
    if job.run_resident is not None and job.kind == "cpu":
        resident = size(job.run_resident)
        said.append(f"{resident} resident in one process at most, interpreter and libraries included")
    return said + [f"note: {text}" for text in job.notes]
