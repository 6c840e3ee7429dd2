"""Where the loop was over time: a column a moment, its phases stacked in their colours, now at the right."""

import math
from collections import Counter
from collections.abc import Sequence
from functools import cache
from itertools import groupby

from rich.style import Style
from rich.text import Span, Text

from gpudoctor.model.signs.process import Rank
from gpudoctor.report.palette import order, phase_colour
from gpudoctor.text import duration

_SPANS = (15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0)
"""Seconds that the band may cover: the first that holds what has been seen."""


_NEAR = 3.0
"""Samples this many times their usual distance apart have a gap between them."""


def phase_band(ranks: Sequence[Rank], now: float, width: int, height: int) -> list[Text]:
    """`height` lines of `width` columns, the last one the axis; empty without a sample or without room."""
    first = min((rank.trail[0][0] for rank in ranks if rank.trail), default=None)
    if first is None or width < 8 or height < 2:
        return []
    span = next((span for span in _SPANS if span >= now - first), _SPANS[-1])
    columns = [_stack(part, 2 * (height - 1)) for part in _parts(ranks, now - span, span / width, width)]
    axis, middle = f"-{duration(span)}", f"-{duration(span / 2)}"  # `-60 s ... -30 s ... now`
    if width >= 40:
        axis = axis.ljust(width // 2 - len(middle) // 2) + middle
    rows = [_cells(columns, row) for row in reversed(range(height - 1))]
    return [*rows, Text(axis.ljust(width - 3) + "now", style="dim", no_wrap=True)]


def _parts(ranks: Sequence[Rank], begin: float, each: float, width: int) -> list[Counter[str]]:
    """Samples by phase of each column; one between two samples near each other is like that before it."""
    columns: list[Counter[str]] = [Counter() for _ in range(width)]
    rates = []
    for rank in ranks:
        for t, phase in rank.trail:
            if t >= begin:
                columns[min(width - 1, int((t - begin) / each))][phase] += 1
        if len(rank.trail) > 1:
            rates.append((rank.trail[-1][0] - rank.trail[0][0]) / (len(rank.trail) - 1))
    reach = math.ceil(_NEAR * min(rates) / each) if rates else 0
    last = None
    for place, column in enumerate(columns):
        if column:
            if last is not None and 1 < place - last <= reach:
                for empty in range(last + 1, place):
                    columns[empty] = columns[last]
            last = place
    return columns


def _stack(counts: Counter[str], levels: int) -> list[str]:
    """The phase of each level from below; empty where nothing was seen."""
    total = sum(counts.values())
    found: list[str] = []
    reached = 0
    for phase in sorted(counts, key=order):
        reached += counts[phase]
        found += [phase] * (round(reached / total * levels) - len(found))
    return found


def _cells(columns: Sequence[list[str]], row: int) -> Text:
    """A line of half blocks: two levels a character. Neighbours that look the same are one piece of text."""
    marks, pieces, at = "", [], 0
    for levels, same in groupby(stack[2 * row : 2 * row + 2] for stack in columns):
        end = at + sum(1 for _ in same)
        mark, style = _cell(*levels) if levels else (" ", None)
        marks += mark * (end - at)
        if style is not None:
            pieces.append(Span(at, end, style))
        at = end
    return Text(marks, no_wrap=True, spans=pieces)


@cache
def _cell(below: str, above: str) -> tuple[str, Style]:
    """The character of two phases on top of each other, and its colours."""
    lower, upper = phase_colour(below).dark, phase_colour(above).dark
    return ("█", Style(color=lower)) if lower == upper else ("▀", Style(color=upper, bgcolor=lower))
