"""What the page shows of a run, of a job's log and of a synthetic job."""

import html
from collections.abc import Iterator

from gpudoctor.model.log_message import LogSummary
from gpudoctor.model.run import RunSeries, RunSummary, SyntheticSummary
from gpudoctor.model.signs.recording import PHASES
from gpudoctor.report.html.charts import DrawnSeries, band_chart, line_chart
from gpudoctor.report.printable import one_line
from gpudoctor.report.run_words import (
    job_words,
    memory_heading,
    memory_rows,
    moment_rows,
    phase_rows,
    rate_text,
    small_print,
    speed_words,
)
from gpudoctor.text import duration, number, percent, size

# What the page shows of a job's log: the time line with the role of each message.


def log_part(log: LogSummary) -> Iterator[str]:
    """The section about it; nothing where the log has no message that matters."""
    rows = [*moment_rows(log)]
    if not rows:
        return
    yield "<h2>Time line of the log</h2>"
    yield "<table><tr><th>role</th><th>where</th><th>message</th></tr>"
    for role, place, text in rows:
        yield f"<tr><th>{_text(role)}</th><td>{_text(place)}</td><td><code>{_text(text)}</code></td></tr>"
    yield "</table>"


def _text(text: str) -> str:
    return html.escape(one_line(text))


# What the page shows of a synthetic job: memory beside its estimate, speed, and the program.


def synthetic_part(job: SyntheticSummary) -> Iterator[str]:
    """The sections about it."""
    yield "<h2>A synthetic job: random weights, random tokens</h2>"
    yield f"<p>{_text(job_words(job))}</p>"
    if speed := speed_words(job):
        yield f"<p>{_text(speed)}</p>"
    rows = memory_rows(job)
    if rows:
        yield f"<h2>{_text(memory_heading(job))}</h2>"
        yield "<table><tr><th></th><th>estimated</th><th>measured</th><th></th></tr>"
        for name, *cells in rows:
            numbers = "".join(f'<td class="number">{_text(cell)}</td>' for cell in cells)
            yield f"<tr><th>{_text(name)}</th>{numbers}</tr>"
        yield "</table>"
    said = [*small_print(job), f"program: {job.script}"]
    listed = "".join(f"<li>{_text(text)}</li>" for text in said)
    yield f"<details><summary>about these numbers</summary><ul>{listed}</ul></details>"


# What the page shows of a run: where a step's time goes, the run over time, numbers, lines.

_COMPUTES = ("forward", "backward", "optimizer")
BANDS = (*_COMPUTES, *(name for name in PHASES if name not in _COMPUTES), "other")
"""Order of the bands from below, and of their colours: what computes first, what waits above it."""
_LEAST = 0.01
"""A phase with a smaller share on average has no band; it counts as `other`."""
_LINES = 15
_CURVES = 10


def run_part(run: RunSummary) -> Iterator[str]:
    """The sections about a run."""
    if run.step_seconds is not None:
        yield "<h2>Where a step's time goes</h2>"
        yield _phase_table(run)
    charts = list(_charts(run))
    if charts:
        yield "<h2>The run over time</h2>"
        yield from charts
    rows = list(_numbers(run))
    if rows:
        yield "<h2>Numbers</h2><table>"
        yield from (f"<tr><th>{html.escape(name)}</th><td>{html.escape(text)}</td></tr>" for name, text in rows)
        yield "</table>"
    if run.lines:
        yield "<h2>Your lines with most of the training thread's time</h2><table>"
        for line in run.lines[:_LINES]:
            place = html.escape(f"{line.path}:{line.line}")
            yield (
                f'<tr><td class="number">{percent(line.share)}</td><td class="mono">{place}</td>'
                f'<td class="mono">{html.escape(line.function)}</td></tr>'
            )
        yield "</table>"


def _phase_table(run: RunSummary) -> str:
    rows = []
    for name, share, each in phase_rows(run):
        colour = f"c{BANDS.index(name.replace(' ', '_'))}" if name.replace(" ", "_") in BANDS else "c11"
        width = max(0.2, min(100.0, share * 100))
        rows.append(
            f'<tr><td>{html.escape(name)}</td><td class="track"><div class="bar {colour}" '
            f'style="width:{width:.1f}%"></div></td><td class="number">{percent(share)}</td>'
            f'<td class="number">{html.escape(each)}</td></tr>'
        )
    return f"<table>{''.join(rows)}</table>"


def _charts(run: RunSummary) -> Iterator[str]:
    by_name = {series.name: series for series in run.series}
    ends = [series.t[-1] for series in run.series if series.t]
    if not ends:
        return
    span = (min(0.0, *(series.t[0] for series in run.series if series.t)), max(ends))

    def curves(*wanted: tuple[str, str]) -> list[DrawnSeries]:
        found = [(label, by_name[name]) for name, label in wanted if name in by_name]
        return [
            DrawnSeries(label=label, series=series, style=f"c{place % 11}")
            for place, (label, series) in enumerate(found[:_CURVES])
        ]

    ranks = [
        (name, f"rank {name.rpartition('rank')[2]}") for name in by_name if name.startswith("step_seconds.")
    ]
    first = "rank 0" if ranks else "a step"
    yield line_chart("Step time", curves(("step_seconds", first), *ranks), span)
    yield band_chart("Phases, as shares of a step", _bands(by_name, run), span)
    yield line_chart("Loss", curves(("loss", "loss")), span, from_zero=False)
    yield line_chart("Gradient norm", curves(("grad_norm", "norm")), span)
    yield line_chart(
        "GPU memory, by torch",
        curves(("device_peak", "peak"), ("device_allocated", "allocated"), ("device_reserved", "reserved")),
        span,
    )
    gpus = sorted({int(name[3 : name.index("_")]) for name in by_name if name.startswith("gpu")})
    for key, title in (
        ("util", "GPU utilisation, share of time with a kernel"), ("sm", "GPU, share of SMs busy"),
        ("memory", "GPU memory, by the driver"), ("power", "GPU power"), ("temperature", "GPU temperature"),
    ):  # fmt: skip
        yield line_chart(title, curves(*((f"gpu{i}_{key}", f"GPU {i}") for i in gpus)), span)
    yield line_chart("Busy CPU cores", curves(("cpu", "machine"), ("tree_cpu", "the command")), span)
    yield line_chart(
        "Memory", curves(("memory", "machine"), ("tree_rss", "the command"), ("rss", "rank 0")), span
    )
    yield line_chart("Disk", curves(("disk_read", "read"), ("disk_write", "written")), span)
    yield line_chart("Network", curves(("net_rx", "received"), ("net_tx", "sent")), span)


def _bands(by_name: dict[str, RunSeries], run: RunSummary) -> list[DrawnSeries]:
    """Phases that are worth a band, in a fixed order; the others go to `other`."""
    found = {name: by_name[f"phase.{name}"] for name in BANDS if f"phase.{name}" in by_name}
    small = [name for name in found if run.phases.get(name, 0.0) < _LEAST and name != "other"]
    bands = []
    for name, series in found.items():
        if name in small:
            continue
        if name == "other":
            parts = [series.values, *(found[each].values for each in small)]
            series = RunSeries(
                name=series.name, unit="1", t=series.t,
                values=tuple(sum(values) for values in zip(*parts, strict=True)),
            )  # fmt: skip
        bands.append(DrawnSeries(label=name.replace("_", " "), series=series, style=f"c{BANDS.index(name)}"))
    return bands


def _numbers(run: RunSummary) -> Iterator[tuple[str, str]]:
    step, memory = run.step_seconds, run.memory
    if run.command:
        yield "command", " ".join(run.command)
    if run.seconds is not None:
        code = f", exit code {run.exit_code}" if run.exit_code is not None else ""
        yield "whole command", f"{duration(run.seconds)}{code}"
    if step is not None:
        yield (
            "step",
            f"mean {duration(step.mean)}, median {duration(step.median)}, "
            f"p10 {duration(step.p10)}, p90 {duration(step.p90)}, "
            f"{duration(step.min)} to {duration(step.max)}, deviation {duration(step.std)}",
        )
    for name, spread in run.throughput.spreads.items():
        text = f"{rate_text(spread.mean)} on average, {rate_text(spread.min)} to {rate_text(spread.max)}"
        yield name.replace("_per_second", "/s"), f"{text}, deviation {rate_text(spread.std)}"
    if run.throughput.mfu is not None:
        yield "MFU", f"{percent(run.throughput.mfu)} of the dense bf16 peak"
    for value, label in (
        (memory.allocated, "GPU memory allocated"), (memory.reserved, "GPU memory reserved"),
        (memory.tree_rss, "memory of the command"), (memory.machine, "memory of the machine"),
    ):  # fmt: skip
        if value is not None:
            yield label, f"{size(value)} at most"
    for index, gpu in enumerate(run.gpus):
        told = [gpu.name]
        told += [f"{percent(gpu.utilization)} utilised"] if gpu.utilization is not None else []
        told += [f"{percent(gpu.sm_active)} of SMs busy"] if gpu.sm_active is not None else []
        told += [f"{number(round(gpu.power))} W"] if gpu.power is not None else []
        told += [f"{number(round(gpu.temperature))} °C at most"] if gpu.temperature is not None else []
        yield f"GPU {index}", ", ".join(told)
