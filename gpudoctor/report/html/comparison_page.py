"""Two runs as one page: the verdict, a step by phase to one scale, curves over each other, every row."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from gpudoctor.lang import rendered, tr, word
from gpudoctor.model.comparison import Comparison, Row
from gpudoctor.model.run import RunSeries, RunSummary
from gpudoctor.report.comparison import groups, remarks
from gpudoctor.report.html.axes import RunAxis
from gpudoctor.report.html.charts import WIDE, DrawnSeries, LineOptions, figure, histogram, line_chart
from gpudoctor.report.html.page import document, headline
from gpudoctor.report.html.tags import heading, phase_class, text
from gpudoctor.report.palette import PHASES
from gpudoctor.text import duration

_NAMES = ("before", "after")
_STYLES = ("c0", "c1")
_DRAWN = ("s", "B")
"""Units of the rows that get bars."""


def render_comparison(item: Comparison) -> str:
    """The whole page as one HTML document."""
    return document(tr("gpudoctor: {title}", title=tr("before and after")), "\n".join(_body(item)))


def _body(item: Comparison) -> Iterator[str]:
    runs = (item.before, item.after)
    yield f'<p class="facts">gpudoctor · {text(tr("before and after"))}</p>'
    yield headline(item.verdict)
    yield _tiles(item)
    yield from _steps(runs)
    charts = [*_charts(runs)]
    if charts:
        yield heading(tr("Over the runs")) + '<div class="charts">'
        yield from charts
        yield "</div>"
    yield from _table(item)
    said = remarks(item)
    if said:
        yield f"<ul>{''.join(f'<li>{text(sentence)}</li>' for sentence in said)}</ul>"
    yield heading(tr("The runs"))
    yield _origins(runs)


def _tiles(item: Comparison) -> str:
    """Both step times and their ratio."""
    found = [
        (
            duration(run.step_seconds.mean),
            tr("a step, {name} ({steps:,} steady steps)", name=word(name), steps=run.steady_steps),
        )
        for name, run in zip(_NAMES, (item.before, item.after), strict=True)
        if run.step_seconds is not None
    ]
    if item.time is not None:
        said = tr(
            "the time a {measure} ({low:.3f} to {high:.3f}, 95 % interval)",
            measure=word(item.measure),
            low=item.time.low,
            high=item.time.high,
        )
        found.append((f"{item.time.value:.3f}x", said))
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
            f'title="{text(_phase(phase))}: {duration(share * mean)}"></div>'
            for phase in PHASES
            if (share := run.phases.get(phase, 0.0)) > 0
        )
        yield (
            f'<tr><td class="number">{text(word(name))}</td><td class="whole-track"><div class="whole" '
            f'style="width:{100 * mean / longest:.1f}%">{parts}</div></td>'
            f'<td class="number">{duration(mean)}</td></tr>'
        )
    seen = [phase for phase in PHASES if any(run.phases.get(phase, 0.0) >= 0.005 for run in runs)]
    legend = " &nbsp; ".join(
        f'<span class="swatch-box {phase_class(phase)}"></span>{text(_phase(phase))}' for phase in seen
    )
    yield f'</table><p class="aside">{legend}</p>'


def _phase(name: str) -> str:
    return word(name.replace("_", " "))


def _charts(runs: tuple[RunSummary, RunSummary]) -> Iterator[str]:
    named = [{series.name: series for series in run.series if series.steps} for run in runs]
    high = max((series.steps[-1] for each in named for series in each.values()), default=0.0)
    if high <= 1:
        return
    axis = RunAxis(kind="step", low=0.0, high=high)
    bad = next((run.bad_step for run in runs if run.bad_step is not None), None)
    loss = LineOptions(unit_title=tr("loss"), from_zero=False, log=True, bad_step=bad)
    for key, title, options in (
        ("step_seconds", tr("Time per step"), LineOptions(unit_title=tr("time per step"), width=WIDE)),
        ("loss", tr("Loss"), loss),
        ("grad_norm", tr("Gradient norm"), LineOptions(unit_title=tr("norm"), log=True, bad_step=bad)),
        ("device_reserved", tr("GPU memory, reserved by torch"), LineOptions(unit_title=tr("bytes"))),
        ("rss", tr("Memory of rank 0"), LineOptions(unit_title=tr("bytes"))),
    ):
        curves = _both(named, key)
        if curves:
            drawn = line_chart(title, curves, axis, options)
            yield figure(title, [drawn], wide=options.width == WIDE)
    times = [
        (word(name), run.step_times, style)
        for name, run, style in zip(_NAMES, runs, _STYLES, strict=True)
        if run.step_times is not None
    ]
    if len(times) == len(runs):
        yield figure(tr("Step times"), [histogram(tr("Step times"), times)])


def _both(named: Sequence[dict[str, RunSeries]], key: str) -> list[DrawnSeries]:
    """The same quantity of both runs; empty where one has none."""
    found = [each[key] for each in named if key in each]
    if len(found) < len(named):
        return []
    return [
        DrawnSeries(label=word(name), series=replace(series, t=series.steps), style=style)
        for name, series, style in zip(_NAMES, found, _STYLES, strict=True)
    ]


def _table(item: Comparison) -> Iterator[str]:
    """Every row, with a bar for each run; the phases to one scale."""
    every = [rows for rows in (item.speed, item.phases, item.memory) if rows]
    for (title, cells), rows in zip(groups(item), every, strict=True):
        title = rendered(title)
        yield heading(title[:1].upper() + title[1:]) + "<table>"
        names = "".join(f'<th class="number">{text(word(name))}</th>' for name in _NAMES)
        yield f"<tr><th></th>{names}<th></th><th></th></tr>"
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
        (tr("recording"), lambda run: run.recording),
        (tr("started"), lambda run: run.started.replace("T", " ")),
        (tr("host"), lambda run: run.node),
        (tr("commit"), lambda run: run.commit),
        (tr("versions"), lambda run: ", ".join(f"{name} {value}" for name, value in run.versions.items())),
        (tr("command"), lambda run: " ".join(run.command)),
        (tr("steps"), lambda run: f"{run.steps:,}"),
    ):
        words = [read(run) for run in runs]
        if any(words):
            cells = "".join(f"<td>{text(each)}</td>" for each in words)
            found.append(f"<tr><th>{text(label)}</th>{cells}</tr>")
    heads = "".join(
        f'<th><span class="swatch-box {style}"></span>{text(word(name))}</th>'
        for name, style in zip(_NAMES, _STYLES, strict=True)
    )
    return f"<table><tr><th></th>{heads}</tr>{''.join(found)}</table>"
