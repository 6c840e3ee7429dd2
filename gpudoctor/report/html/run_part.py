"""What the page shows of a run: where a step's time goes, its steps or its time, memory, lines."""

import html
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from gpudoctor.model import Report
from gpudoctor.model.run import RunSeries, RunSummary
from gpudoctor.report.excerpts import excerpt_of
from gpudoctor.report.html.axes import RunAxis, formatter, run_axes
from gpudoctor.report.html.charts import (
    DrawnSeries,
    LimitLine,
    LineOptions,
    figure,
    histogram,
    lane_chart,
    line_chart,
    stack_chart,
)
from gpudoctor.report.html.tags import phase_class, rows, text
from gpudoctor.report.palette import CURVES, PHASES
from gpudoctor.report.run_words import phase_rows, rate_text
from gpudoctor.text import count, duration, number, percent, size

_LEAST = 0.01
"""A phase with a smaller share on average has no band; it counts as `other`."""
_LINES = 15
_CURVES = 8
_FLAT = 0.02
"""A quantity that moves by less than this share of itself is a number, not a chart."""
_NEAR = 5.0
"""A limit up to so many times the highest value is drawn in its chart."""


def phases_part(run: RunSummary) -> Iterator[str]:
    """Directly under the headline: where a step's time goes, and every step over the run."""
    if run.step_seconds is not None or run.samples:
        yield _whole(run)
        yield _phase_table(run)
    axes = run_axes(run)
    if len(axes) > 1:
        yield (
            '<p class="choices">charts by<label for="axis-step">step</label>'
            '<label for="axis-time">time</label></p>'
        )
    yield steps_chart(run, axes)


def axis_inputs(run: RunSummary | None) -> str:
    """The choice of an axis, which works without a script; they stand before everything that they change."""
    if run is None:
        return ""
    kinds = [axis.kind for axis in run_axes(run)]
    if not kinds:
        return ""
    hidden = " disabled" if len(kinds) < 2 else ""
    return "".join(
        f'<input class="axis-choice" type="radio" name="axis" id="axis-{kind}" aria-label="charts by {kind}"'
        f"{' checked' if place == 0 else ''}{hidden}>"
        for place, kind in enumerate(kinds)
    )


def _whole(run: RunSummary) -> str:
    """One bar for the whole step, phases in their order."""
    parts = [
        f'<div class="{phase_class(name)}" style="width:{max(0.0, run.phases[name]) * 100:.2f}%" '
        f'title="{html.escape(name.replace("_", " "))}: {percent(run.phases[name])}"></div>'
        for name in PHASES
        if run.phases.get(name, 0.0) > 0
    ]
    return f'<div class="whole" role="img" aria-label="share of a step by phase">{"".join(parts)}</div>'


def _phase_table(run: RunSummary) -> str:
    found = []
    for name, share, each in phase_rows(run):
        width = max(0.2, min(100.0, share * 100))
        found.append(
            f'<tr><td><span class="swatch-box {phase_class(name)}"></span>{html.escape(name)}</td>'
            f'<td class="track"><div class="bar {phase_class(name)}" style="width:{width:.1f}%"></div></td>'
            f'<td class="number">{percent(share)}</td><td class="number">{html.escape(each)}</td></tr>'
        )
    return f'<table class="phases">{"".join(found)}</table>'


def steps_chart(run: RunSummary, axes: Sequence[RunAxis], title: str = "Every step, by phase") -> str:
    """Time per step over the run, stacked by phase; "" without a step."""
    named = {series.name: series for series in run.series}
    bands = _bands(run, named)
    note = ""
    if run.start_seconds is not None and run.warm_up_seconds:
        begun, warm = duration(run.start_seconds), duration(run.warm_up_seconds)
        note = f"{begun} to the end of the first step, then {warm} of warm-up"
    drawings = [stack_chart(title, bands, axis, named.get("step_longest")) for axis in axes]
    return figure(title, drawings, wide=True, note=note)


def _bands(run: RunSummary, named: dict[str, RunSeries]) -> list[DrawnSeries]:
    """Seconds of each phase that is worth a band, in the palette's order; the others go to `other`."""
    lead = named.get("step_seconds")
    if lead is None:
        return []
    found = {name: named[f"phase.{name}"] for name in PHASES if f"phase.{name}" in named}
    return [
        replace(
            band,
            series=replace(
                band.series,
                unit="s",
                values=tuple(share * step for share, step in zip(band.series.values, lead.values, strict=True)),
            ),
        )
        for band in _worth(found, run)
    ]


def _worth(found: dict[str, RunSeries], run: RunSummary) -> list[DrawnSeries]:
    """Shares by phase; those too small to be seen are part of `other`."""
    small = [name for name in found if run.phases.get(name, 0.0) < _LEAST and _mean(found[name]) < _LEAST]
    bands = []
    for name, series in found.items():
        if name == "other":
            parts = [series.values, *(found[each].values for each in small if each != "other")]
            series = replace(series, values=tuple(map(math.fsum, zip(*parts, strict=True))))
        elif name in small:
            continue
        bands.append(DrawnSeries(label=name.replace("_", " "), series=series, style=phase_class(name)))
    return bands


def _mean(series: RunSeries) -> float:
    return math.fsum(series.values) / max(1, len(series.values))


def run_part(report: Report) -> Iterator[str]:
    """The other sections about a run."""
    run = report.run
    assert run is not None
    drawn, flat = _charts(run)
    if drawn or flat:
        yield '<h2>Over the run</h2><div class="charts">'
        yield from drawn
        yield "</div>"
        if flat:
            yield f'<p class="aside">Constant over the run, so not drawn: {html.escape("; ".join(flat))}.</p>'
    yield from _memory(run)
    if run.lines:
        yield from _lines(report, run)
    yield "<h2>The run</h2>"
    yield rows(_where(report, run))
    yield rows(_numbers(run))


def _charts(run: RunSummary) -> tuple[list[str], list[str]]:
    """Drawings, and what is too flat for one in words."""
    axes, named = run_axes(run), {series.name: series for series in run.series}
    if not axes:
        return [], []
    drawn, flat = list(_lanes(run, named, axes)), []
    if run.step_times is not None and run.step_seconds is not None:
        marks = [(run.step_seconds.median, f"median {duration(run.step_seconds.median)}")]
        marks += [(run.step_seconds.p90, f"90 % below {duration(run.step_seconds.p90)}")]
        beyond = f"{count(run.step_times.beyond, 'step')} took longer" if run.step_times.beyond else ""
        drawn.append(
            figure("Step times", [histogram("Step times", [("", run.step_times, "c0")], marks)], note=beyond)
        )
    for title, wanted, options in _wanted(run, named):
        found = [(label, named[name]) for name, label in wanted if name in named]
        moving = [(label, series) for label, series in found if not _is_flat(series)]
        if not moving:
            if found:
                flat.append(_flat_words(title, found))
            continue
        curves = [
            DrawnSeries(label=label, series=series, style=f"c{place % len(CURVES)}")
            for place, (label, series) in enumerate(found[:_CURVES])
        ]
        more = f"and {len(found) - _CURVES} more" if len(found) > _CURVES else ""
        drawings = [line_chart(title, curves, axis, options) for axis in axes]
        drawn.append(figure(title, drawings, note=more))
    return [item for item in drawn if item], flat


def _wanted(
    run: RunSummary, named: dict[str, RunSeries]
) -> Iterator[tuple[str, list[tuple[str, str]], LineOptions]]:
    """Title, series with their labels, and how to draw them."""
    bad = run.bad_step
    yield (
        "Loss",
        [("loss", "loss")],
        LineOptions(unit_title="loss", from_zero=False, log=True, bad_step=bad),
    )
    yield "Gradient norm", [("grad_norm", "norm")], LineOptions(unit_title="norm", log=True, bad_step=bad)
    yield "Learning rate", [("lr", "rate")], LineOptions(unit_title="rate")
    ranks = [
        (name, f"rank {name.rpartition('rank')[2]}") for name in named if name.startswith("step_seconds.rank")
    ]
    if ranks:
        yield "Step time by rank", [("step_seconds", "rank 0"), *ranks], LineOptions(unit_title="time per step")
    torch = [("device_peak", "peak"), ("device_allocated", "allocated"), ("device_reserved", "reserved")]
    level = _limit(named, torch, run.memory.device)
    yield "GPU memory, by torch", torch, LineOptions(unit_title="bytes", level=level)
    cards = sorted({int(name[3 : name.index("_")]) for name in named if name.startswith("gpu")})
    for key, title, axis in (
        ("util", "GPU utilisation", "share of time with a kernel"), ("sm", "SM activity", "share of SMs busy"),
        ("memory", "GPU memory, by the driver", "bytes"), ("power", "GPU power", "watts"),
        ("temperature", "GPU temperature", "degrees Celsius"),
        ("pcie_rx", "PCIe, towards the GPU", "bytes per second"),
        ("pcie_tx", "PCIe, from the GPU", "bytes per second"),
    ):  # fmt: skip
        wanted = [(f"gpu{card}_{key}", f"GPU {card}") for card in cards]
        total = (
            next((gpu.memory_total for gpu in run.gpus if gpu.memory_total), None) if key == "memory" else None
        )
        yield title, wanted, LineOptions(unit_title=axis, level=_limit(named, wanted, total))
    cores = [("cpu", "machine"), ("tree_cpu", "the command")]
    yield "Busy CPU cores", cores, LineOptions(unit_title="cores")
    memory = [("memory", "machine"), ("tree_rss", "the command"), ("rss", "rank 0")]
    level = _limit(named, memory, run.memory.machine_limit)
    yield "Host memory", memory, LineOptions(unit_title="bytes", level=level)
    rates = LineOptions(unit_title="bytes per second")
    yield "Disk", [("disk_read", "read"), ("disk_write", "written")], rates
    yield "Network", [("net_rx", "received"), ("net_tx", "sent")], rates


def _limit(
    named: dict[str, RunSeries], wanted: Sequence[tuple[str, str]], limit: float | None
) -> LimitLine | None:
    """The limit as a line, unless it would squeeze the curves to the ground."""
    most = max((_most(named[name]) for name, _ in wanted if name in named), default=0.0)
    if not limit or limit > _NEAR * most:
        return None
    return LimitLine(value=float(limit), label=f"limit {size(limit)}")


def _most(series: RunSeries) -> float:
    return max((value for value in series.values if math.isfinite(value)), default=0.0)


def _is_flat(series: RunSeries) -> bool:
    known = [value for value in series.values if math.isfinite(value)]
    return not known or max(known) - min(known) <= _FLAT * max(abs(max(known)), abs(min(known)))


def _flat_words(title: str, found: Sequence[tuple[str, RunSeries]]) -> str:
    """`GPU memory, by torch: allocated 1 GiB, reserved 3 GiB`."""
    if all(_most(series) == 0 for _, series in found):
        return f"{title} 0"
    values = [_most(series) for _, series in found]
    if len(found) > 1 and max(values) - min(values) <= _FLAT * max(values):
        return f"{title}: {formatter(found[0][1].unit)(max(values))} on each"
    parts = [f"{label} {formatter(series.unit)(_most(series))}" for label, series in found]
    alone = len(parts) == 1 and found[0][0] in title.lower()
    return (
        f"{title} {formatter(found[0][1].unit)(_most(found[0][1]))}"
        if alone
        else f"{title}: {', '.join(parts)}"
    )


def _lanes(run: RunSummary, named: dict[str, RunSeries], axes: Sequence[RunAxis]) -> Iterator[str]:
    """A lane a rank and a lane a GPU, one below the other: who waits while who works."""
    numbers = sorted(
        {int(name.rpartition("rank")[2]) for name in named if name.startswith("phase.") and ".rank" in name}
    )
    lanes: list[tuple[str, list[DrawnSeries]]] = []
    for rank in numbers:
        ending = f".rank{rank}"
        found = {name: named[f"phase.{name}{ending}"] for name in PHASES if f"phase.{name}{ending}" in named}
        lanes.append((f"rank {rank}", _worth(found, run)))
    for card in sorted({int(name[3 : name.index("_")]) for name in named if name.startswith("gpu")}):
        series = named.get(f"gpu{card}_sm") or named.get(f"gpu{card}_util")
        if series is not None:
            what = "SMs busy" if f"gpu{card}_sm" in named else "utilisation"
            lanes.append((f"GPU {card}", [DrawnSeries(label=what, series=series, style="c0")]))
    title = " and ".join(
        filter(None, ("Ranks" if numbers else "", "GPUs" if len(lanes) > len(numbers) else ""))
    )
    said = "phases of each rank, as above" if numbers else ""
    said += ("; " if said else "") + "GPU lanes: the share that is busy" if len(lanes) > len(numbers) else ""
    yield figure(
        f"{title} side by side",
        [lane_chart(title, lanes, axis) for axis in axes] if lanes else [],
        wide=True,
        note=said,
    )


def _memory(run: RunSummary) -> Iterator[str]:
    """What fills each card, against its limit; on the CPU what fills the host."""
    bars = [*_budgets(run)]
    if not bars:
        return
    yield "<h2>Memory, at most, against the limit</h2>"
    for label, limit, parts in bars:
        segments = "".join(
            f'<div class="{style}" style="width:{100 * amount / limit:.2f}%" '
            f'title="{html.escape(name)}: {size(amount)}"></div>'
            for name, amount, style in parts
            if style
        )
        said = " &nbsp; ".join(
            f'<span class="swatch-box {style or "free"}"></span>{html.escape(name)} {size(amount)} '
            f"({percent(amount / limit)})"
            for name, amount, style in parts
        )
        yield f'<p>{html.escape(label)}: {size(limit)}</p><div class="whole budget">{segments}</div>'
        yield f'<p class="aside">{said}</p>'


def _budgets(run: RunSummary) -> Iterator[tuple[str, float, list[tuple[str, float, str]]]]:
    """Label, limit, and amounts with their styles; the last one is what is free."""
    memory = run.memory
    for index, gpu in enumerate(run.gpus):
        limit = gpu.memory_total or memory.device
        if limit and gpu.memory is not None:
            held = [("allocated by torch", float(memory.allocated or 0), "c0")] if len(run.gpus) == 1 else []
            if held and memory.reserved:
                held.append(("cached by torch", max(0.0, memory.reserved - held[0][1]), "c5"))
            known = sum(amount for _, amount, _ in held)
            rest = max(0.0, gpu.memory - known)
            held.append(("the rest: context, libraries, other processes" if known else "used", rest, "c3"))
            yield (
                f"GPU {index}, {gpu.name}",
                float(limit),
                [*held, ("free", max(0.0, limit - known - rest), "")],
            )
    if not run.gpus and memory.device and memory.allocated:
        reserved = max(float(memory.reserved or 0), float(memory.allocated))
        parts = [
            ("allocated by torch", float(memory.allocated), "c0"),
            ("cached by torch", reserved - memory.allocated, "c5"),
        ]
        yield (
            "GPU of the fullest rank",
            float(memory.device),
            [*parts, ("free", max(0.0, memory.device - reserved), "")],
        )
    if memory.machine_limit and memory.tree_rss:
        command = min(float(memory.tree_rss), float(memory.machine_limit))
        others = max(0.0, float(memory.machine or 0) - command)
        parts = [("all processes of the command", command, "c0"), ("others", others, "c7")]
        free = max(0.0, memory.machine_limit - command - others)
        yield "host", float(memory.machine_limit), [*parts, ("free", free, "")]


def _lines(report: Report, run: RunSummary) -> Iterator[str]:
    yield "<h2>Your lines with most of the training thread's time</h2><table>"
    most = max(line.share for line in run.lines) or 1.0
    for line in run.lines[:_LINES]:
        found = excerpt_of(report.excerpts, line.path, line.line)
        code = found.lines[line.line - found.first].strip() if found else line.function
        yield (
            f'<tr><td class="number">{percent(line.share)}</td><td class="short"><div class="bar heat" '
            f'style="width:{100 * line.share / most:.1f}%"></div></td>'
            f'<td class="mono">{text(f"{line.path}:{line.line}")}</td><td class="mono">{text(code)}</td></tr>'
        )
    yield "</table>"


def tiles(run: RunSummary) -> str:
    """The few numbers that everyone asks for, large."""
    step, rates, memory = run.step_seconds, run.throughput, run.memory
    found: list[tuple[str, str]] = []
    if run.steps:
        found.append((f"{run.steps:,}", "step" if run.steps == 1 else "steps"))
    if step is not None:
        found.append((duration(step.mean), "a step"))
    if rates.steps_per_second:
        found.append((rate_text(rates.steps_per_second), "steps/s"))
    if rates.tokens_per_second:
        found.append((rate_text(rates.tokens_per_second), "tokens/s"))
    elif rates.samples_per_second:
        found.append((rate_text(rates.samples_per_second), "samples/s"))
    if rates.mfu:
        found.append((percent(rates.mfu), "MFU"))
    if run.ranks > 1:
        found.append((f"{run.ranks:,}", "ranks"))
    if memory.allocated is not None:
        of = f" of {size(memory.device)}" if memory.device else ""
        found.append((size(memory.allocated), f"GPU memory{of}"))
    elif memory.tree_rss is not None:
        found.append((size(memory.tree_rss), "memory"))
    items = "".join(f"<li><b>{text(value)}</b><span>{text(label)}</span></li>" for value, label in found)
    return f'<ul class="tiles">{items}</ul>' if items else ""


def _where(report: Report, run: RunSummary) -> Iterator[tuple[str, str]]:
    """When, where and of what: what somebody asks who finds the file a year later."""
    if run.started:
        yield "started", run.started.replace("T", " ")
    if host := report.subject.host or run.node:
        yield "host", host
    names = [gpu.name for gpu in run.gpus if gpu.name]
    if names:
        yield "GPUs", ", ".join(f"{names.count(name)} x {name}" for name in dict.fromkeys(names))
    if run.versions:
        yield "versions", ", ".join(f"{name} {value}" for name, value in run.versions.items())
    if run.commit:
        yield "commit", run.commit
    if run.command:
        yield "command", " ".join(run.command)


def _numbers(run: RunSummary) -> Iterator[tuple[str, str]]:
    step, memory = run.step_seconds, run.memory
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
        said = f"{rate_text(spread.mean)} on average, {rate_text(spread.min)} to {rate_text(spread.max)}"
        yield name.replace("_per_second", "/s"), f"{said}, deviation {rate_text(spread.std)}"
    if run.throughput.mfu is not None:
        yield "MFU", f"{percent(run.throughput.mfu)} of the dense bf16 peak"
    for value, label in (
        (memory.allocated, "GPU memory allocated"), (memory.reserved, "GPU memory reserved"),
        (memory.tree_rss, "memory of the command"), (memory.machine, "memory of the machine"),
    ):  # fmt: skip
        if value is not None:
            yield label, f"{size(value)} at most"
    for index, gpu in enumerate(run.gpus):
        facts = [gpu.name]
        facts += [f"{percent(gpu.utilization)} utilised"] if gpu.utilization is not None else []
        facts += [f"{percent(gpu.sm_active)} of SMs busy"] if gpu.sm_active is not None else []
        facts += [f"{number(round(gpu.power))} W"] if gpu.power is not None else []
        facts += [f"limit {number(round(gpu.power_limit))} W"] if gpu.power_limit is not None else []
        facts += [f"{number(round(gpu.temperature))} °C at most"] if gpu.temperature is not None else []
        yield f"GPU {index}", ", ".join(facts)
