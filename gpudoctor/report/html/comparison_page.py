"""What the page of two runs shows: step times, curves over each other, every row, where they are from."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from gpudoctor.lang import tr, word
from gpudoctor.model.comparison import Comparison
from gpudoctor.model.run import RunSeries
from gpudoctor.report.html.axes import RunAxis
from gpudoctor.report.html.charts import WIDE, DrawnSeries, Figure, LineOptions, histogram, line_chart
from gpudoctor.text import duration

_NAMES = ("before", "after")
_STYLES = ("c0", "c1")


def comparison_tiles(item: Comparison) -> list[tuple[str, str]]:
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
    return found


def comparison_figures(item: Comparison) -> list[Figure]:
    """Curves of both runs over each other, and their step times."""
    runs = (item.before, item.after)
    named = [{series.name: series for series in run.series if series.steps} for run in runs]
    high = max((series.steps[-1] for each in named for series in each.values()), default=0.0)
    if high <= 1:
        return []
    found: list[Figure] = []
    axis = RunAxis(by_step=True, low=0.0, high=high)
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
            found.append((title, line_chart(title, curves, axis, options), options.width == WIDE, ""))
    times = [
        (word(name), run.step_times, style)
        for name, run, style in zip(_NAMES, runs, _STYLES, strict=True)
        if run.step_times is not None
    ]
    if len(times) == len(runs):
        found.append((tr("Step times"), histogram(tr("Step times"), times), False, ""))
    return [figure for figure in found if figure[1]]


def _both(named: Sequence[dict[str, RunSeries]], key: str) -> list[DrawnSeries]:
    """The same quantity of both runs; empty where one has none."""
    found = [each[key] for each in named if key in each]
    if len(found) < len(named):
        return []
    return [
        DrawnSeries(label=word(name), series=replace(series, t=series.steps), style=style)
        for name, series, style in zip(_NAMES, found, _STYLES, strict=True)
    ]


def comparison_origins(item: Comparison) -> Iterator[tuple[str, list[str]]]:
    """When, where and of what, both beside each other."""
    for label, read in (
        (tr("recording"), lambda run: run.recording),
        (tr("started"), lambda run: run.started.replace("T", " ")),
        (tr("host"), lambda run: run.node),
        (tr("commit"), lambda run: run.commit),
        (tr("versions"), lambda run: ", ".join(f"{name} {value}" for name, value in run.versions.items())),
        (tr("command"), lambda run: " ".join(run.command)),
        (tr("steps"), lambda run: f"{run.steps:,}"),
    ):
        words = [read(run) for run in (item.before, item.after)]
        if any(words):
            yield label, words
