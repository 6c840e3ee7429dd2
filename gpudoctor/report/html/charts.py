"""Line and band charts as inline SVG, and the round numbers of their axes."""

import html
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gpudoctor.model.run import RunSeries
from gpudoctor.text import duration, number, percent, size

# Axes: round numbers for ticks, and numbers as text in the unit of their quantity.

_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
_BINARY = 1024.0


def ticks(low: float, high: float, count: int = 5, *, binary: bool = False) -> list[float]:
    """About `count` round numbers from at most `low` to at least `high`; powers of 1,024 for bytes."""
    if not (math.isfinite(low) and math.isfinite(high)) or high <= low:
        high = low + (abs(low) or 1.0)
    scale = 1.0
    if binary:
        scale = _BINARY ** max(0, math.floor(math.log(max(abs(high), 1.0), _BINARY)))
    step = _round_step((high - low) / scale / max(1, count)) * scale
    first = math.floor(low / step + 1e-9)
    last = math.ceil(high / step - 1e-9)
    return [number * step for number in range(first, max(last, first + 1) + 1)]


def time_ticks(high: float) -> list[float]:
    """Round seconds, minutes or hours from 0 up to `high`."""
    for step in (
        0.1,
        0.2,
        0.5,
        1,
        2,
        5,
        10,
        15,
        30,
        60,
        120,
        300,
        600,
        900,
        1800,
        3600,
        7200,
        14400,
        21600,
        43200,
    ):
        if high / step <= 6:
            return [number * step for number in range(int(high / step) + 1)]
    return [number * 86400.0 for number in range(int(high / 86400) + 1)]


def formatter(unit: str) -> Callable[[float], str]:
    """How values of a unit are written at an axis."""
    if unit == "s":
        return duration
    if unit == "B":
        return size
    if unit == "B/s":
        return lambda value: f"{size(value)}/s"
    if unit == "1":
        return percent
    if unit in ("W", "Cel"):
        return lambda value: f"{number(round(value, 1))} {'°C' if unit == 'Cel' else unit}"
    return lambda value: f"{value:.4g}"


def extent(values: Sequence[float], *, from_zero: bool) -> tuple[float, float]:
    """Lowest and highest known value; from 0 where the eye compares heights."""
    known = [value for value in values if math.isfinite(value)]
    if not known:
        return 0.0, 1.0
    low, high = min(known), max(known)
    if from_zero:
        return min(0.0, low), max(high, 0.0) or 1.0
    return (low - 0.5, high + 0.5) if low == high else (low, high)


def _round_step(raw: float) -> float:
    """The smallest round number that is not below `raw`."""
    if raw <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(raw))
    return next(step * power for step in _STEPS if step * power >= raw * (1 - 1e-9))


WIDTH, HEIGHT = 760, 200
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 130, 12, 26
_LINE = 13
"""Pixels between labels that would overlap."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnSeries:
    """A series with its name in the drawing; `style` is a class of the style sheet."""

    label: str
    series: RunSeries
    style: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Frame:
    """From data to pixels."""

    t: tuple[float, float]
    y: tuple[float, float]

    def x_of(self, t: float) -> float:
        span = (self.t[1] - self.t[0]) or 1.0
        return _LEFT + (t - self.t[0]) / span * (WIDTH - _LEFT - _RIGHT)

    def y_of(self, value: float) -> float:
        span = (self.y[1] - self.y[0]) or 1.0
        return HEIGHT - _BOTTOM - (value - self.y[0]) / span * (HEIGHT - _TOP - _BOTTOM)


def line_chart(
    title: str, curves: Sequence[DrawnSeries], span: tuple[float, float], *, from_zero: bool = True
) -> str:
    """Curves of one unit over the run's time `span`; "" without any."""
    if not curves:
        return ""
    unit = curves[0].series.unit
    values = [value for curve in curves for value in curve.series.values]
    low, high = extent(values, from_zero=from_zero)
    marks = ticks(low, high, binary=unit in ("B", "B/s"))
    frame = _Frame(t=span, y=(marks[0], marks[-1]))
    write = formatter(unit)
    parts = [*_axes(frame, marks, write)]
    ends: list[tuple[float, str, str]] = []
    for curve in curves:
        points = [
            (frame.x_of(t), frame.y_of(value)) if math.isfinite(value) else None
            for t, value in zip(curve.series.t, curve.series.values, strict=True)
        ]
        parts.append(f'<path class="line {curve.style}" d="{_path(points)}"/>')
        last = next((point for point in reversed(points) if point), None)
        known = [value for value in curve.series.values if math.isfinite(value)]
        if last and known:
            ends.append((last[1], curve.label, curve.style))
            parts.append(_hover(frame, curve, points, write))
    parts += _labels(ends)
    return _svg(title, parts)


def band_chart(title: str, curves: Sequence[DrawnSeries], span: tuple[float, float]) -> str:
    """Shares stacked from 0 to 1, the first lowest; "" without any."""
    if not curves:
        return ""
    frame = _Frame(t=span, y=(0.0, 1.0))
    parts: list[str] = []
    t = curves[0].series.t
    below = [0.0] * len(t)
    ends: list[tuple[float, str, str]] = []
    for curve in curves:
        above = [low + _finite(value) for low, value in zip(below, curve.series.values, strict=True)]
        upper = [(frame.x_of(at), frame.y_of(min(1.0, value))) for at, value in zip(t, above, strict=True)]
        lower = [(frame.x_of(at), frame.y_of(min(1.0, value))) for at, value in zip(t, below, strict=True)]
        outline = " L".join(f"{x:.1f},{y:.1f}" for x, y in [*upper, *reversed(lower)])
        mean = sum(map(_finite, curve.series.values)) / max(1, len(t))
        parts.append(
            f'<path class="band {curve.style}" d="M{outline}Z">'
            f"<title>{html.escape(curve.label)}: {mean:.1%} on average</title></path>"
        )
        if upper:
            # Beside its usual place, not its last: a run often ends in an evaluation that squeezes all others.
            middle = sum(y for _, y in [*upper, *lower]) / (2 * len(upper))
            ends.append((middle, curve.label, curve.style))
        below = above
    parts += _axes(frame, [0.0, 0.25, 0.5, 0.75, 1.0], formatter("1"), grid=False)
    parts += _labels(ends)
    return _svg(title, parts)


def _finite(value: float) -> float:
    return value if math.isfinite(value) else 0.0


def _svg(title: str, parts: Sequence[str]) -> str:
    name = html.escape(title)
    return (
        f'<figure><figcaption>{name}</figcaption><svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-label="{name}">{"".join(parts)}</svg></figure>'
    )


def _axes(frame: _Frame, marks: Sequence[float], write: object, *, grid: bool = True) -> list[str]:
    """Horizontal lines with their values, and the time below."""
    assert callable(write)
    parts = []
    for mark in marks:
        y = frame.y_of(mark)
        if grid or mark in (marks[0], marks[-1]):
            parts.append(f'<path class="grid" d="M{_LEFT},{y:.1f}H{WIDTH - _RIGHT}"/>')
        parts.append(
            f'<text class="axis end" x="{_LEFT - 6}" y="{y + 4:.1f}">{html.escape(write(mark))}</text>'
        )
    for t in time_ticks(frame.t[1] - frame.t[0]):
        x = frame.x_of(frame.t[0] + t)
        parts.append(f'<path class="tick" d="M{x:.1f},{HEIGHT - _BOTTOM}v4"/>')
        parts.append(f'<text class="axis mid" x="{x:.1f}" y="{HEIGHT - 8}">{html.escape(duration(t))}</text>')
    return parts


def _path(points: Sequence[tuple[float, float] | None]) -> str:
    """A line with gaps where nothing was known; a lone point is a short dash."""
    parts: list[str] = []
    pen_down = False
    for place, point in enumerate(points):
        if point is None:
            pen_down = False
            continue
        x, y = point
        parts.append(f"{'L' if pen_down else 'M'}{x:.1f},{y:.1f}")
        follower = points[place + 1] if place + 1 < len(points) else None
        if not pen_down and follower is None:
            parts.append("h1.5")
        pen_down = True
    return "".join(parts)


def _hover(
    frame: _Frame, curve: DrawnSeries, points: Sequence[tuple[float, float] | None], write: object
) -> str:
    """Invisible columns whose tooltips tell time and value."""
    assert callable(write)
    shown = [place for place, point in enumerate(points) if point]
    stride = max(1, len(shown) // 60)
    parts = []
    for place in shown[::stride]:
        point = points[place]
        assert point is not None
        at, value = curve.series.t[place] - frame.t[0], curve.series.values[place]
        text = html.escape(f"{curve.label}: {write(value)} at {duration(at)}")
        parts.append(
            f'<circle class="dot" cx="{point[0]:.1f}" cy="{point[1]:.1f}" r="5"><title>{text}</title></circle>'
        )
    return "".join(parts)


def _labels(ends: Sequence[tuple[float, str, str]]) -> list[str]:
    """Names at the right edge, pushed apart where they would overlap."""
    placed: list[tuple[float, str, str]] = []
    low = _TOP + 4.0
    for y, label, style in sorted(ends):
        y = max(y + 4, low)
        low = y + _LINE
        placed.append((y, label, style))
    over = (placed[-1][0] - (HEIGHT - _BOTTOM + 8)) if placed else 0.0
    x = WIDTH - _RIGHT + 8
    return [
        f'<text class="label {style}" x="{x}" y="{y - max(0.0, over):.1f}">{html.escape(label)}</text>'
        for y, label, style in placed
    ]
