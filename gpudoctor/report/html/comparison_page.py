"""Two runs as one page: the verdict, a step by phase to one scale, curves over each other, every row."""

import html
from collections.abc import Iterator, Sequence
from dataclasses import replace

from gpudoctor.model.comparison import Comparison, Row
from gpudoctor.model.run import RunSeries, RunSummary
from gpudoctor.report.comparison import groups, remarks
from gpudoctor.report.html.axes import RunAxis
from gpudoctor.report.html.charts import WIDE, DrawnSeries, LineOptions, figure, histogram, line_chart
from gpudoctor.report.html.page import document, headline
from gpudoctor.report.html.tags import phase_class, text
from gpudoctor.report.palette import PHASES
from gpudoctor.text import duration

_NAMES = ("before", "after")
_STYLES = ("c0", "c1")
_DRAWN = ("s", "B")
"""Units of the rows that get bars."""


def render_comparison(item: Comparison) -> str:
    """The whole page as one HTML document."""
    return document("gpudoctor: before and after", "\n".join(_body(item)))


def _body(item: Comparison) -> Iterator[str]:
    runs = (item.before, item.after)
    yield '<p class="facts">gpudoctor · before and after</p>'
    yield headline(item.verdict)
    yield _tiles(item)
    yield from _steps(runs)
    charts = [*_charts(runs)]
    if charts:
        yield '<h2>Over the runs</h2><div class="charts">'
        yield from charts
        yield "</div>"
    yield from _table(item)
    said = remarks(item)
    if said:
        yield f"<ul>{''.join(f'<li>{text(sentence)}</li>' for sentence in said)}</ul>"
    yield "<h2>The runs</h2>"
    yield _origins(runs)


def _tiles(item: Comparison) -> str:
    """Both step times and their ratio."""
    found = [
        (duration(run.step_seconds.mean), f"a step, {name} ({run.steady_steps:,} steady steps)")
        for name, run in zip(_NAMES, (item.before, item.after), strict=True)
        if run.step_seconds is not None
    ]
    if item.time is not None:
        span = f"{item.time.low:.3f} to {item.time.high:.3f}, 95 % interval"
        found.append((f"{item.time.value:.3f}x", f"the time a {item.measure} ({span})"))
    items = "".join(f"<li><b>{text(value)}</b><span>{text(label)}</span></li>" for value, label in found)
    return f'<ul class="tiles">{items}</ul>' if items else ""


def _steps(runs: tuple[RunSummary, RunSummary]) -> Iterator[str]:
    """A mean step of each run, by phase, to one scale."""
    means = [run.step_seconds.mean if run.step_seconds else 0.0 for run in runs]
    longest = max(means)
    if not longest:
        return
    yield '<table class="phases">'
    for name, run, mean in zip(_NAMES, runs, means, strict=True):
        parts = "".join(
            f'<div class="{phase_class(phase)}" style="width:{100 * share:.2f}%" '
            f'title="{html.escape(phase.replace("_", " "))}: {duration(share * mean)}"></div>'
            for phase in PHASES
            if (share := run.phases.get(phase, 0.0)) > 0
        )
        yield (
            f'<tr><td class="number">{name}</td><td class="whole-track"><div class="whole" '
            f'style="width:{100 * mean / longest:.1f}%">{parts}</div></td>'
            f'<td class="number">{duration(mean)}</td></tr>'
        )
    seen = [phase for phase in PHASES if any(run.phases.get(phase, 0.0) >= 0.005 for run in runs)]
    legend = " &nbsp; ".join(
        f'<span class="swatch-box {phase_class(phase)}"></span>{html.escape(phase.replace("_", " "))}'
        for phase in seen
    )
    yield f'</table><p class="aside">{legend}</p>'


def _charts(runs: tuple[RunSummary, RunSummary]) -> Iterator[str]:
    named = [{series.name: series for series in run.series if series.steps} for run in runs]
    high = max((series.steps[-1] for each in named for series in each.values()), default=0.0)
    if high <= 1:
        return
    axis = RunAxis(kind="step", low=0.0, high=high)
    bad = next((run.bad_step for run in runs if run.bad_step is not None), None)
    loss = LineOptions(unit_title="loss", from_zero=False, log=True, bad_step=bad)
    for key, title, options in (
        ("step_seconds", "Time per step", LineOptions(unit_title="time per step", width=WIDE)),
        ("loss", "Loss", loss),
        ("grad_norm", "Gradient norm", LineOptions(unit_title="norm", log=True, bad_step=bad)),
        ("device_reserved", "GPU memory, reserved by torch", LineOptions(unit_title="bytes")),
        ("rss", "Memory of rank 0", LineOptions(unit_title="bytes")),
    ):
        curves = _both(named, key)
        if curves:
            drawn = line_chart(title, curves, axis, options)
            yield figure(title, [drawn], wide=options.width == WIDE)
    times = [
        (name, run.step_times, style)
        for name, run, style in zip(_NAMES, runs, _STYLES, strict=True)
        if run.step_times is not None
    ]
    if len(times) == len(runs):
        yield figure("Step times", [histogram("Step times", times)])


def _both(named: Sequence[dict[str, RunSeries]], key: str) -> list[DrawnSeries]:
    """The same quantity of both runs; empty where one has none."""
    found = [each[key] for each in named if key in each]
    if len(found) < len(named):
        return []
    return [
        DrawnSeries(label=name, series=replace(series, t=series.steps), style=style)
        for name, series, style in zip(_NAMES, found, _STYLES, strict=True)
    ]


def _table(item: Comparison) -> Iterator[str]:
    """Every row, with a bar for each run; the phases to one scale."""
    every = [rows for rows in (item.speed, item.phases, item.memory) if rows]
    for (title, cells), rows in zip(groups(item), every, strict=True):
        yield f"<h2>{text(title[:1].upper() + title[1:])}</h2><table>"
        yield '<tr><th></th><th class="number">before</th><th class="number">after</th><th></th><th></th></tr>'
        drawn = [row for row in rows if row.unit in _DRAWN]
        most = max((max(row.before or 0.0, row.after or 0.0) for row in drawn), default=0.0)
        for row, (name, before, after, change) in zip(rows, cells, strict=True):
            numbers = "".join(f'<td class="number">{text(cell)}</td>' for cell in (before, after, change))
            bars = _bars(row, most) if row in drawn else ""
            yield f'<tr><th>{text(name)}</th>{numbers}<td class="wide">{bars}</td></tr>'
        yield "</table>"


def _bars(row: Row, most: float) -> str:
    return "".join(
        f'<div class="bar thin {style}" style="width:{100 * (value or 0.0) / (most or 1.0):.1f}%"></div>'
        for value, style in zip((row.before, row.after), _STYLES, strict=True)
    )


def _origins(runs: tuple[RunSummary, RunSummary]) -> str:
    """When, where and of what, both beside each other."""
    found = []
    for label, read in (
        ("recording", lambda run: run.recording),
        ("started", lambda run: run.started.replace("T", " ")),
        ("host", lambda run: run.node),
        ("commit", lambda run: run.commit),
        ("versions", lambda run: ", ".join(f"{name} {value}" for name, value in run.versions.items())),
        ("command", lambda run: " ".join(run.command)),
        ("steps", lambda run: f"{run.steps:,}"),
    ):
        words = [read(run) for run in runs]
        if any(words):
            cells = "".join(f"<td>{text(each)}</td>" for each in words)
            found.append(f"<tr><th>{label}</th>{cells}</tr>")
    heads = "".join(
        f'<th><span class="swatch-box {style}"></span>{name}</th>'
        for name, style in zip(_NAMES, _STYLES, strict=True)
    )
    return f"<table><tr><th></th>{heads}</tr>{''.join(found)}</table>"
