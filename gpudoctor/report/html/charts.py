"""Charts as inline SVG: curves, stacked bands, lanes, a histogram. Every axis has its unit and its title."""

import html
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median

from gpudoctor.lang import tr
from gpudoctor.model.run import RunSeries, StepTimes
from gpudoctor.report.html.axes import RunAxis, extent, formatter, log_ticks, ticks
from gpudoctor.report.run_words import listed
from gpudoctor.text import count, duration, percent

WIDE, NARROW = 1000, 500
"""Units of a chart's width; a narrow one stands beside another."""
_HEIGHT = 200
_LEFT, _RIGHT, _TOP, _BOTTOM = 66, 112, 20, 36
_LINE = 14
"""Units between labels that would overlap."""
_HOVERS = 60
"""Columns of a chart that say their values."""
_FAR = 3.0
"""A gap this many times the usual distance of two points is dashed: nothing was recorded there."""
_SPARSE = 60
"""Up to so many points, each has a dot..."""
_DOTTED = 2
"""...where there are no more curves than these."""
_SEVERAL = 3
"""Steps that a point stands for, from which on its longest one is worth a line."""
_LOG = 4.0
"""From this ratio of the highest to the lowest value on, a logarithmic axis shows more."""
_USUAL = 0.98
"""Share of the steps that the axis of stacked times covers, at least."""


Figure = tuple[str, list[str], bool, str]
"""A title, its drawings (by step, by time; "" for one without points), whether it is wide, and a note."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnSeries:
    """A series with its name in the drawing; `style` is a class of the style sheet."""

    label: str
    series: RunSeries
    style: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitLine:
    """A horizontal line with its name: the limit of a card."""

    value: float
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Frame:
    """From data to pixels."""

    x: tuple[float, float]
    y: tuple[float, float]
    width: int
    height: int
    log: bool = False
    right: int = _RIGHT

    @property
    def edges(self) -> tuple[float, float, float, float]:
        """Left, right, top and bottom of the plot."""
        return _LEFT, self.width - self.right, _TOP, self.height - _BOTTOM

    def x_of(self, place: float) -> float:
        left, right, _, _ = self.edges
        return left + (place - self.x[0]) / ((self.x[1] - self.x[0]) or 1.0) * (right - left)

    def y_of(self, value: float) -> float:
        _, _, top, bottom = self.edges
        low, high = self.y
        if self.log:
            low, high, value = math.log10(low), math.log10(high), math.log10(value)
        return bottom - (value - low) / ((high - low) or 1.0) * (bottom - top)


@dataclass(slots=True)
class _Drawing:
    """Parts of an SVG, in the order of painting."""

    frame: _Frame
    parts: list[str] = field(default_factory=list)
    labels: list[tuple[float, str, str]] = field(default_factory=list)
    """Height, name and style at the right edge."""

    def svg(self, title: str, style: str = "") -> str:
        self.parts += _labels(self.labels, self.frame)
        return (
            f'<svg class="{style}" viewBox="0 0 {self.frame.width} {self.frame.height}" role="img" '
            f'aria-label="{html.escape(title)}"><title>{html.escape(title)}</title>{"".join(self.parts)}</svg>'
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LineOptions:
    """How curves are drawn."""

    unit_title: str = ""
    """The title of the axis that goes up."""
    from_zero: bool = True
    log: bool = False
    """A logarithmic axis, where the values are worth one."""
    level: LimitLine | None = None
    bad_step: int | None = None
    """The first step whose numbers were not finite."""
    width: int = NARROW


def line_chart(title: str, curves: Sequence[DrawnSeries], axis: RunAxis, options: LineOptions | None = None) -> str:
    """Curves of one unit; "" without any."""
    if not curves:
        return ""
    how = options or LineOptions()
    unit = curves[0].series.unit
    values = [value for curve in curves for value in curve.series.values if math.isfinite(value)]
    logarithmic = how.log and bool(values) and min(values) > 0 and max(values) >= _LOG * min(values)
    if logarithmic:
        marks = log_ticks(min(values), max(values))
    else:
        low, high = extent([*values, *([how.level.value] if how.level else [])], from_zero=how.from_zero)
        marks = ticks(low, high, 4, binary=unit in ("B", "B/s"))
    frame = _Frame(x=(axis.low, axis.high), y=(marks[0], marks[-1]), width=how.width, height=_HEIGHT, log=logarithmic)
    write = formatter(unit)
    said = tr("{title} (logarithmic)", title=how.unit_title) if logarithmic else how.unit_title
    drawing = _Drawing(frame, _axes(frame, axis, marks, write, said))
    drawn = []
    for curve in curves:
        points = [
            (frame.x_of(place), frame.y_of(value)) if math.isfinite(place) and math.isfinite(value) else None
            for place, value in zip(axis.places(curve.series), curve.series.values, strict=True)
        ]
        known = sum(map(math.isfinite, curve.series.values))
        drawing.parts += _curve(points, curve.style, dots=known <= _SPARSE and len(curves) <= _DOTTED)
        last = next((point for point in reversed(points) if point), None)
        if last:
            drawing.labels.append((last[1], curve.label, curve.style))
            drawn.append((curve, points))
    if not drawn:
        return ""
    if how.level is not None:
        y, (left, right, _, _) = frame.y_of(how.level.value), frame.edges
        drawing.parts.append(_path("limit", f"M{left},{y:.1f}H{right}"))
        drawing.labels.append((y, how.level.label, "limit"))
    drawing.parts += _bad(frame, axis, how.bad_step)
    drawing.parts += _hover(frame, axis, drawn, write)
    return drawing.svg(title, f"by-{axis.kind}")


def _curve(points: Sequence[tuple[float, float] | None], style: str, *, dots: bool) -> list[str]:
    """Lines between known points; where nothing was known for long, a dashed one; dots where there are few."""
    found = [point for point in points if point]
    gaps = [after[0] - before[0] for before, after in pairwise(found)]
    usual = median(gaps) if gaps else 0.0
    solid: list[str] = []
    dashed: list[str] = []
    pen_down = False
    for place, (x, y) in enumerate(found):
        if pen_down and gaps[place - 1] > _FAR * max(usual, 1.0):
            before = found[place - 1]
            dashed.append(f"M{before[0]:.1f},{before[1]:.1f}L{x:.1f},{y:.1f}")
            pen_down = False
        solid.append(f"{'L' if pen_down else 'M'}{x:.1f},{y:.1f}")
        pen_down = True
    parts = [_path(f"line {style}", "".join(solid))]
    if dashed:
        parts.append(_path(f"line gap {style}", "".join(dashed)))
    if dots:
        parts += [f'<circle class="dot {style}" cx="{x:.1f}" cy="{y:.1f}" r="2"/>' for x, y in found]
    return parts


def _bad(frame: _Frame, axis: RunAxis, step: int | None) -> list[str]:
    """A mark at the first step whose numbers were not finite."""
    place = math.nan if step is None else axis.place_of_step(float(step))
    if not axis.low <= place <= axis.high:
        return []
    x, (_, right, top, bottom) = frame.x_of(place), frame.edges
    anchor = "end" if x > right - 150 else ""
    beside = x - 5 if anchor else x + 5
    said = tr("step {step:,}: not finite", step=step)
    return [_path("bad", f"M{x:.1f},{top}V{bottom}"), _text(f"bad {anchor}", beside, top + 9, said)]


def stack_chart(title: str, bands: Sequence[DrawnSeries], axis: RunAxis, longest: RunSeries | None = None) -> str:
    """Seconds stacked by phase, the first lowest, one column a point; "" without any.

    Each band is painted from the ground up behind those below it, so that no seam shows between them. A thin
    line is the longest step of each point, where a point stands for several.
    """
    if not bands:
        return ""
    places = axis.places(bands[0].series)
    totals = [math.fsum(map(_finite, values)) for values in zip(*(b.series.values for b in bands), strict=True)]
    usual = sorted(totals)[min(len(totals) - 1, int(_USUAL * len(totals)))]
    marks = ticks(0.0, min(max(totals), 1.5 * usual) or 1.0, 4)
    frame = _Frame(x=(axis.low, axis.high), y=(0.0, marks[-1]), width=WIDE, height=260)
    drawing = _Drawing(frame, _axes(frame, axis, marks, duration, tr("time per step")))
    starts = [places[0] - (places[1] - places[0] if len(places) > 1 else 1.0), *places[:-1]]
    starts[0] = max(axis.low, starts[0])
    tops = [0.0] * len(totals)
    painted: list[str] = []
    for band in bands:
        below = list(tops)
        tops = [top + _finite(value) for top, value in zip(tops, band.series.values, strict=True)]
        share = math.fsum(map(_finite, band.series.values)) / (math.fsum(totals) or 1.0)
        outline = _columns(frame, starts, places, tops)
        said = tr("{label}: {share} of the time", label=band.label, share=percent(share))
        painted.append(_path(f"band {band.style}", outline, said))
        middle = median(frame.y_of(min(frame.y[1], (a + b) / 2)) for a, b in zip(below, tops, strict=True))
        drawing.labels.append((middle, band.label, band.style))
    drawing.parts += reversed(painted)
    if longest is not None and axis.numbers[-1] > _SEVERAL * len(totals):
        points = [
            (frame.x_of(place), frame.y_of(min(frame.y[1], value)))
            for place, value in zip(places, longest.values, strict=True)
            if math.isfinite(value)
        ]
        joined = "".join(f"{'L' if place else 'M'}{x:.1f},{y:.1f}" for place, (x, y) in enumerate(points))
        drawing.parts.append(_path("longest", joined))
    drawing.parts += _beyond(frame, places, totals)
    drawing.parts += _stack_hover(frame, axis, bands, totals)
    return drawing.svg(title, f"by-{axis.kind}")


def _columns(frame: _Frame, starts: Sequence[float], places: Sequence[float], tops: Sequence[float]) -> str:
    """The outline of columns from the ground up."""
    _, _, _, bottom = frame.edges
    parts = [f"M{frame.x_of(starts[0]):.1f},{bottom}"]
    last = None
    for place, top in zip(places, tops, strict=True):
        y = f"{frame.y_of(min(frame.y[1], top)):.1f}"
        parts.append(f"H{frame.x_of(place):.1f}" if y == last else f"V{y}H{frame.x_of(place):.1f}")
        last = y
    return f"{''.join(parts)}V{bottom}Z"


def _beyond(frame: _Frame, places: Sequence[float], totals: Sequence[float]) -> list[str]:
    """Arrows where a step is longer than the axis; the longest says how long."""
    found = [(place, total) for place, total in zip(places, totals, strict=True) if total > frame.y[1]]
    if not found:
        return []
    most = max(found, key=lambda item: item[1])
    parts = [
        _path("over", f"M{frame.x_of(place) - 3:.1f},{_TOP}h6l-3,-6z", duration(total)) for place, total in found[:40]
    ]
    x = max(frame.x_of(most[0]), frame.edges[0] + 90)  # beside the title of the axis
    near_end = x > frame.edges[1] - 120
    said = tr("up to {longest}", longest=duration(most[1]))
    return [*parts, _text(f"axis {'end' if near_end else ''}", x - 7 if near_end else x + 7, _TOP - 3, said)]


def lane_chart(
    title: str, lanes: Sequence[tuple[str, Sequence[DrawnSeries]]], axis: RunAxis, *, width: int = WIDE
) -> str:
    """A lane a rank or GPU: shares from 0 to 1 stacked in it, or one share alone; "" without any."""
    if not lanes:
        return ""
    tall, gap = (26, 6) if len(lanes) <= 8 else (16, 3)
    height = _TOP + _BOTTOM + len(lanes) * (tall + gap)
    frame = _Frame(x=(axis.low, axis.high), y=(0.0, 1.0), width=width, height=height)
    drawing = _Drawing(frame, _bottom(frame, axis.marks(), axis.title))
    left, right, _, _ = frame.edges
    for number, (label, bands) in enumerate(lanes):
        top = _TOP + number * (tall + gap)
        drawing.parts.append(f'<rect class="lane" x="{left}" y="{top}" width="{right - left}" height="{tall}"/>')
        drawing.parts.append(_text("axis end", left - 6, top + tall / 2 + 4, label))
        painted = []
        tops: list[float] = []
        for band in bands:
            shown = [
                (place, _finite(value))
                for place, value in zip(axis.places(band.series), band.series.values, strict=True)
                if math.isfinite(place)
            ]
            if not shown:
                continue
            tops = [a + value for a, (_, value) in zip(tops or [0.0] * len(shown), shown, strict=True)]
            begin = max(axis.low, 2 * shown[0][0] - shown[min(1, len(shown) - 1)][0])
            path = [f"M{frame.x_of(begin):.0f},{top + tall}"]
            last = ""
            for level, (place, _) in zip(tops, shown, strict=True):
                side = f"H{frame.x_of(place):.0f}"
                y = f"V{top + tall - tall * min(1.0, level):.0f}"
                path.append(side if y == last else y + side)
                last = y
            mean = math.fsum(value for _, value in shown) / len(shown)
            said = tr("{lane}, {label}: {share} on average", lane=label, label=band.label, share=percent(mean))
            painted.append(_path(f"band {band.style}", f"{''.join(path)}V{top + tall}Z", said))
        drawing.parts += reversed(painted)
        if len(bands) == 1 and bands[0].series.values:
            known = [value for value in bands[0].series.values if math.isfinite(value)]
            mean = math.fsum(known) / len(known) if known else math.nan
            drawing.parts.append(_text("axis", right + 8, top + tall / 2 + 4, percent(mean)))
    return drawing.svg(title, f"by-{axis.kind}")


def histogram(title: str, found: Sequence[tuple[str, StepTimes, str]], marks: Sequence[tuple[float, str]] = ()) -> str:
    """Label, times and style of each run; bars of one, outlines of two. `marks` are times with their names."""
    if not found:
        return ""
    low = min(times.edges[0] for _, times, _ in found)
    high = max(times.edges[-1] for _, times, _ in found)
    sides = ticks(low, high, 5)
    shares = [[each / (sum(times.counts) + times.beyond) for each in times.counts] for _, times, _ in found]
    scale = [
        [share / (times.edges[1] - times.edges[0]) for share in each]
        for each, (_, times, _) in zip(shares, found, strict=True)
    ]  # bars of two runs have other widths: heights compare as densities
    alone = len(found) == 1
    heights = [[float(each) for each in found[0][1].counts]] if alone else scale
    most = max(max(each) for each in heights)
    rows = ticks(0.0, most, 4) if alone else [0.0, most]
    frame = _Frame(x=(low, high), y=(0.0, rows[-1]), width=NARROW, height=_HEIGHT, right=24 if alone else _RIGHT)
    write: Callable[[float], str] = (lambda value: f"{value:,.0f}") if alone else (lambda _: "")
    drawing = _Drawing(frame, _grid(frame, rows, write, tr("steps") if alone else tr("share of the steps")))
    left, right, top, bottom = frame.edges
    shown = [(side, duration(side)) for side in sides if low <= side <= high]
    drawing.parts += _bottom(frame, shown, tr("time per step"))
    for (label, times, style), each in zip(found, heights, strict=True):
        path = [f"M{frame.x_of(times.edges[0]):.1f},{bottom}"]
        path += [
            f"V{frame.y_of(height):.1f}H{frame.x_of(edge):.1f}"
            for height, edge in zip(each, times.edges[1:], strict=True)
        ]
        drawing.parts.append(_path(f"bars {style}", f"{''.join(path)}V{bottom}Z"))
        if not alone:
            peak = max(range(len(each)), key=each.__getitem__)
            drawing.labels.append((frame.y_of(each[peak]), label, style))
        else:
            wide = frame.x_of(times.edges[1]) - frame.x_of(times.edges[0])
            for (a, b), n in zip(pairwise(times.edges), times.counts, strict=True):
                said = tr("{low} to {high}: {steps}", low=duration(a), high=duration(b), steps=count(n, "step"))
                drawing.parts.append(_bar(frame, frame.x_of(a), wide, said))
    for place, (value, name) in enumerate(marks):
        if low <= value <= high:
            x = frame.x_of(value)
            end = "end" if x > (left + right) / 2 else ""
            drawing.parts.append(_path("limit", f"M{x:.1f},{top}V{bottom}"))
            drawing.parts.append(_text(f"axis {end}", x - 4 if end else x + 4, top + 8 + 13 * place, name))
    return drawing.svg(title)


def _finite(value: float) -> float:
    return value if math.isfinite(value) else 0.0


def _axes(
    frame: _Frame, axis: RunAxis, marks: Sequence[float], write: Callable[[float], str], unit_title: str
) -> list[str]:
    """Horizontal lines with their values and their title, and what stands to the right below."""
    return [*_grid(frame, marks, write, unit_title), *_bottom(frame, axis.marks(), axis.title)]


def _grid(frame: _Frame, marks: Sequence[float], write: Callable[[float], str], unit_title: str) -> list[str]:
    left, right, top, _ = frame.edges
    parts = []
    for mark in marks:
        y = frame.y_of(mark)
        parts += [_path("grid", f"M{left},{y:.1f}H{right}"), _text("axis end", left - 6, y + 4, write(mark))]
    return [*parts, _text("axis", left, top - 8, unit_title)] if unit_title else parts


def _bottom(frame: _Frame, marks: Sequence[tuple[float, str]], title: str) -> list[str]:
    left, right, _, bottom = frame.edges
    parts = []
    for place, words in marks:
        x = frame.x_of(place)
        parts += [_path("tick", f"M{x:.1f},{bottom}v4"), _text("axis mid", x, bottom + 16, words)]
    return [*parts, _text("axis mid", (left + right) / 2, bottom + 31, title)]


def _path(style: str, line: str, words: str = "") -> str:
    """A line; `words` are shown where the mouse is over it."""
    title = f"><title>{html.escape(words)}</title></path>" if words else "/>"
    return f'<path class="{style}" d="{line}"{title}'


def _text(style: str, x: float, y: float, words: str) -> str:
    return f'<text class="{style}" x="{x:.1f}" y="{y:.1f}">{html.escape(words)}</text>'


def _hover(
    frame: _Frame,
    axis: RunAxis,
    drawn: Sequence[tuple[DrawnSeries, Sequence[tuple[float, float] | None]]],
    write: Callable[[float], str],
) -> list[str]:
    """Invisible columns whose tooltips say where and how much of each curve."""
    if not drawn:
        return []
    curve, points = max(drawn, key=lambda item: sum(point is not None for point in item[1]))
    shown = [place for place, point in enumerate(points) if point]
    stride = max(1, len(shown) // _HOVERS)
    parts = []
    places = axis.places(curve.series)
    for place in shown[::stride]:
        said = [
            f"{each.label} {write(each.series.values[place])}"
            for each, its in drawn
            if place < len(its) and its[place] and (each is curve or axis.places(each.series)[place] == places[place])
        ]
        point = points[place]
        assert point is not None
        words = tr("{place}: {values}", place=axis.words(places[place]), values=listed(said))
        parts.append(_column(frame, point[0], len(shown[::stride]), words))
    return parts


def _stack_hover(frame: _Frame, axis: RunAxis, bands: Sequence[DrawnSeries], totals: Sequence[float]) -> list[str]:
    places = axis.places(bands[0].series)
    shown = range(0, len(places), max(1, len(places) // _HOVERS))
    parts = []
    for place in shown:
        top = sorted(((_finite(b.series.values[place]), b.label) for b in bands), reverse=True)[:4]
        said = listed(f"{label} {duration(value)}" for value, label in top if value)
        words = tr(
            "{place}: {total} ({parts})", place=axis.words(places[place]), total=duration(totals[place]), parts=said
        )
        parts.append(_column(frame, frame.x_of(places[place]), len(shown), words))
    return parts


def _column(frame: _Frame, x: float, count: int, words: str) -> str:
    left, right, _, _ = frame.edges
    wide = (right - left) / max(1, count)
    return _bar(frame, max(left, x - wide), wide, words)


def _bar(frame: _Frame, x: float, wide: float, words: str) -> str:
    """An invisible rectangle from the top to the ground, with its words."""
    _, _, top, bottom = frame.edges
    size = f'width="{wide:.1f}" height="{bottom - top}"'
    return f'<rect class="hover" x="{x:.1f}" y="{top}" {size}><title>{html.escape(words)}</title></rect>'


def _labels(ends: Sequence[tuple[float, str, str]], frame: _Frame) -> list[str]:
    """Names with a swatch at the right edge, pushed apart where they would overlap."""
    _, right, top, bottom = frame.edges
    placed: list[tuple[float, str, str]] = []
    low = top + 4.0
    for y, label, style in sorted(ends):
        y = max(y + 4, low)
        low = y + _LINE
        placed.append((y, label, style))
    over = max(0.0, placed[-1][0] - bottom - 4) if placed else 0.0
    last = bottom + 4.0
    fitted = []
    for y, label, style in reversed(placed):
        y = min(y, last) if over else y
        last = y - _LINE
        fitted.append((y, label, style))
    return [
        f'<rect class="swatch {style}" x="{right + 8}" y="{y - 8:.1f}" width="9" height="9" rx="2"/>'
        + _text("label", right + 21, y, label)
        for y, label, style in fitted
    ]
