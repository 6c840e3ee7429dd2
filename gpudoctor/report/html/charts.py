"""Charts as inline SVG: curves, stacked bands, a histogram. Every axis has its unit and its title."""

import html
import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from statistics import median

from gpudoctor.lang import tr
from gpudoctor.model.records import frozen
from gpudoctor.model.run import RunSeries, StepTimes
from gpudoctor.report.html.axes import RunAxis, formatter, ticks
from gpudoctor.report.run_words import listed
from gpudoctor.text import count, duration, percent

WIDE, NARROW = 1000, 500
"""Units of a chart's width; a narrow one stands beside another."""
_HEIGHT, _TALL = 200, 260
_LEFT, _RIGHT, _TOP, _BOTTOM = 66, 112, 20, 36
_LINE = 14
"""Units between labels that would overlap."""
_HOVERS = 60
"""Columns of a chart that say their values."""
_SPARSE, _DOTTED = 60, 2
"""Up to so many points, each has a dot, where there are no more curves than these."""
_USUAL = 0.98
"""Share of the steps that the axis of stacked times covers, at least."""

Figure = tuple[str, str, bool, str]
"""A title, its drawing, whether it is wide, and a note."""
Point = tuple[float, float]


@frozen
class DrawnSeries:
    """A series with its name in the drawing; `style` is a class of the style sheet."""

    label: str
    series: RunSeries
    style: str


@frozen
class LineOptions:
    """How curves are drawn."""

    unit_title: str = ""
    """The title of the axis that goes up."""
    from_zero: bool = True
    limit: tuple[float, str] | None = None
    """A horizontal line with its name: the limit of a card."""
    bad_step: int | None = None
    """The first step whose numbers were not finite."""


class _Drawing:
    """Parts of an SVG in the order of painting, and the way from data to its units."""

    def __init__(self, x: Point, y: Point, width: int, height: int = _HEIGHT, *, right: int = _RIGHT) -> None:
        self.x, self.y, self.width, self.height = x, y, width, height
        self.left, self.right, self.top, self.bottom = _LEFT, width - right, _TOP, height - _BOTTOM
        self.parts: list[str] = []
        self.labels: list[tuple[float, str, str]] = []
        """Height, name and style at the right edge."""

    def x_of(self, place: float) -> float:
        return self.left + (place - self.x[0]) / ((self.x[1] - self.x[0]) or 1.0) * (self.right - self.left)

    def y_of(self, value: float) -> float:
        low, high = self.y
        return self.bottom - (min(value, high) - low) / ((high - low) or 1.0) * (self.bottom - self.top)

    def path(self, style: str, line: str, words: str = "") -> None:
        """A line; `words` are shown where the mouse is over it."""
        title = f"><title>{html.escape(words)}</title></path>" if words else "/>"
        self.parts.append(f'<path class="{style}" d="{line}"{title}')

    def text(self, style: str, x: float, y: float, words: str) -> None:
        self.parts.append(f'<text class="{style}" x="{x:.1f}" y="{y:.1f}">{html.escape(words)}</text>')

    def column(self, x: float, wide: float, words: str) -> None:
        """An invisible rectangle from the top to the ground, with its words."""
        size = f'width="{wide:.1f}" height="{self.bottom - self.top}"'
        title = html.escape(words)
        self.parts.append(f'<rect class="hover" x="{x:.1f}" y="{self.top}" {size}><title>{title}</title></rect>')

    def rows(self, marks: Sequence[float], write: Callable[[float], str], title: str) -> None:
        """Horizontal lines with their values, and the title of that axis."""
        for mark in marks:
            y = self.y_of(mark)
            self.path("grid", f"M{self.left},{y:.1f}H{self.right}")
            self.text("axis end", self.left - 6, y + 4, write(mark))
        self.text("axis", self.left, self.top - 8, title)

    def ground(self, marks: Sequence[tuple[float, str]], title: str) -> None:
        """What stands to the right below."""
        for place, words in marks:
            self.path("tick", f"M{self.x_of(place):.1f},{self.bottom}v4")
            self.text("axis mid", self.x_of(place), self.bottom + 16, words)
        self.text("axis mid", (self.left + self.right) / 2, self.bottom + 31, title)

    def hover(self, shown: Sequence[tuple[float, str]]) -> None:
        """Columns whose tooltips say where they are and what is there."""
        few = shown[:: max(1, len(shown) // _HOVERS)]
        wide = (self.right - self.left) / max(1, len(few))
        for place, said in few:
            words = tr("step {step:,.0f}: {values}", step=place, values=said)
            self.column(max(self.left, self.x_of(place) - wide), wide, words)

    def svg(self, title: str) -> str:
        """The whole; names with a swatch stand at the right edge, pushed apart where they would overlap."""
        heights: list[float] = []
        ends = sorted(self.labels)
        for y, _, _ in ends:
            heights.append(max(y + 4, heights[-1] + _LINE if heights else self.top + 4.0))
        over = max(0.0, heights[-1] - self.bottom - 4) if heights else 0.0
        for y, (_, label, style) in zip(heights, ends, strict=True):
            at = f'x="{self.right + 8}" y="{y - over - 8:.1f}" width="9" height="9" rx="2"'
            self.parts.append(f'<rect class="swatch {style}" {at}/>')
            self.text("label", self.right + 21, y - over, label)
        box, name = f"0 0 {self.width} {self.height}", html.escape(title)
        inside = "".join(self.parts)
        return f'<svg viewBox="{box}" role="img" aria-label="{name}"><title>{name}</title>{inside}</svg>'


def line_chart(title: str, curves: Sequence[DrawnSeries], axis: RunAxis, options: LineOptions | None = None) -> str:
    """Curves of one unit; "" without any."""
    how = options or LineOptions()
    values = [value for curve in curves for value in curve.series.values if math.isfinite(value)]
    if not values:
        return ""
    unit = curves[0].series.unit
    low, high = min(values), max([*values, *(how.limit[:1] if how.limit else ())])
    if how.from_zero:
        low, high = min(0.0, low), max(high, 0.0) or 1.0
    elif low == high:
        low, high = low - 0.5, high + 0.5
    marks = ticks(low, high, 4, binary=unit in ("B", "B/s"))
    made = _Drawing((0.0, axis.high), (marks[0], marks[-1]), NARROW)
    write = formatter(unit)
    made.rows(marks, write, how.unit_title)
    made.ground(axis.marks(), tr("step"))
    said: dict[float, list[str]] = {}
    for curve in curves:
        known = [
            (place, value)
            for place, value in zip(axis.places(curve.series), curve.series.values, strict=True)
            if math.isfinite(place) and math.isfinite(value)
        ]
        points = [(made.x_of(place), made.y_of(value)) for place, value in known]
        _curve(made, points, curve.style, dots=len(known) <= _SPARSE and len(curves) <= _DOTTED)
        made.labels += [(points[-1][1], curve.label, curve.style)] if points else []
        for place, value in known:
            said.setdefault(place, []).append(f"{curve.label} {write(value)}")
    if not said:
        return ""
    if how.limit is not None:
        y = made.y_of(how.limit[0])
        made.path("limit", f"M{made.left},{y:.1f}H{made.right}")
        made.labels.append((y, how.limit[1], "limit"))
    if how.bad_step is not None and how.bad_step <= axis.high:
        x = made.x_of(how.bad_step)
        made.path("bad", f"M{x:.1f},{made.top}V{made.bottom}")
        end = x > made.right - 150
        words = tr("step {step:,}: not finite", step=how.bad_step)
        made.text(f"bad {'end' if end else ''}", x - 5 if end else x + 5, made.top + 9, words)
    made.hover([(place, listed(words)) for place, words in sorted(said.items())])
    return made.svg(title)


def _curve(made: _Drawing, points: Sequence[Point], style: str, *, dots: bool) -> None:
    """Lines between known points; dots where there are few."""
    if points:
        made.path(f"line {style}", "M" + "L".join(f"{x:.1f},{y:.1f}" for x, y in points))
    made.parts += [f'<circle class="dot {style}" cx="{x:.1f}" cy="{y:.1f}" r="2"/>' for x, y in points if dots]


def stack_chart(title: str, bands: Sequence[DrawnSeries], axis: RunAxis) -> str:
    """Seconds stacked by phase, the first lowest; "" without any."""
    if not bands:
        return ""
    places = axis.places(bands[0].series)
    totals = [math.fsum(map(_finite, values)) for values in zip(*(b.series.values for b in bands), strict=True)]
    usual = sorted(totals)[min(len(totals) - 1, int(_USUAL * len(totals)))]
    marks = ticks(0.0, min(max(totals), 1.5 * usual) or 1.0, 4)
    made = _Drawing((0.0, axis.high), (0.0, marks[-1]), WIDE, _TALL)
    made.rows(marks, duration, tr("time per step"))
    made.ground(axis.marks(), tr("step"))
    for band, outline, tops in reversed(_outlines(made, bands, places)):
        values = list(map(_finite, band.series.values))
        share = math.fsum(values) / (math.fsum(totals) or 1.0)
        made.path(
            f"band {band.style}", outline, tr("{label}: {share} of the time", label=band.label, share=percent(share))
        )
        middle = median(made.y_of(top - value / 2) for top, value in zip(tops, values, strict=True))
        made.labels.append((middle, band.label, band.style))
    longest, place = max(zip(totals, places, strict=True))
    if longest > made.y[1]:
        x = max(made.x_of(place), made.left + 90)  # beside the title of the axis
        end = x > made.right - 120
        said = tr("up to {longest}", longest=duration(longest))
        made.text(f"axis {'end' if end else ''}", x - 7 if end else x + 7, _TOP - 3, said)
    shown = []
    for at, place in enumerate(places):
        largest = sorted(((_finite(b.series.values[at]), b.label) for b in bands), reverse=True)[:4]
        parts = listed(f"{label} {duration(value)}" for value, label in largest if value)
        shown.append((place, tr("{total} ({parts})", total=duration(totals[at]), parts=parts)))
    made.hover(shown)
    return made.svg(title)


def _outlines(
    made: _Drawing, bands: Sequence[DrawnSeries], places: Sequence[float]
) -> list[tuple[DrawnSeries, str, list[float]]]:
    """Bands with their outlines and their tops, one column a point, the lowest first.

    Each is painted from the ground up behind those below it, so that no seam shows between them.
    """
    found: list[tuple[DrawnSeries, str, list[float]]] = []
    tops = [0.0] * len(places)
    begin = max(made.x[0], 2 * places[0] - places[min(1, len(places) - 1)])
    for band in bands:
        tops = [below + _finite(value) for below, value in zip(tops, band.series.values, strict=True)]
        columns = zip(places, tops, strict=True)
        path = "".join(f"V{made.y_of(top):.1f}H{made.x_of(place):.1f}" for place, top in columns)
        found.append((band, f"M{made.x_of(begin):.1f},{made.y_of(0):.1f}{path}V{made.y_of(0):.1f}Z", tops))
    return found


def histogram(title: str, times: StepTimes, marks: Sequence[tuple[float, str]]) -> str:
    """Bars of the step times. `marks` are times with their names."""
    low, high = times.edges[0], times.edges[-1]
    rows = ticks(0.0, float(max(times.counts)), 4)
    made = _Drawing((low, high), (0.0, rows[-1]), NARROW, right=24)
    made.rows(rows, lambda value: f"{value:,.0f}", tr("steps"))
    made.ground([(side, duration(side)) for side in ticks(low, high, 5) if low <= side <= high], tr("time per step"))
    bars = zip(times.counts, times.edges[1:], strict=True)
    path = "".join(f"V{made.y_of(number):.1f}H{made.x_of(edge):.1f}" for number, edge in bars)
    made.path("bars c0", f"M{made.x_of(low):.1f},{made.bottom}{path}V{made.bottom}Z")
    for (a, b), n in zip(pairwise(times.edges), times.counts, strict=True):
        said = tr("{low} to {high}: {steps}", low=duration(a), high=duration(b), steps=count(n, "step"))
        made.column(made.x_of(a), made.x_of(b) - made.x_of(a), said)
    for place, (value, name) in enumerate(marks):
        if low <= value <= high:
            x = made.x_of(value)
            end = x > (made.left + made.right) / 2
            made.path("limit", f"M{x:.1f},{made.top + 13 * place}V{made.bottom}")  # below the labels before
            made.text(f"axis {'end' if end else ''}", x - 4 if end else x + 4, made.top + 8 + 13 * place, name)
    return made.svg(title)


def _finite(value: float) -> float:
    return value if math.isfinite(value) else 0.0
