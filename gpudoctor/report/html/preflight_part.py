"""What the page shows of an active examination: bandwidth between nodes as a heat map, and every figure."""

from collections.abc import Iterator

from gpudoctor.lang import tr
from gpudoctor.model.signs.preflight import Preflight, Quantity, Unit
from gpudoctor.report.html.tags import heading, heads
from gpudoctor.report.html.tags import text as _text
from gpudoctor.report.preflight_words import figure_rows, pair_speeds, untested
from gpudoctor.text import percent, quantity

_MOST_NODES = 128
"""Sides of the heat map; a larger one shows the slowest nodes."""
_CELL, _LABEL = 14, 120
_LEGEND = 220
_LABELLED = 64
"""Up to so many nodes, each row has its name."""
_BARS = 256


def preflight_part(found: Preflight) -> Iterator[str]:
    """The sections about it."""
    rows = figure_rows(found)
    if rows:
        yield heading(tr("What was measured"))
        columns = heads("", tr("slowest"), tr("median"), tr("fastest"), tr("times measured"), numbers=True)
        yield f"<table>{columns}"
        for row in rows:
            cells = "".join(
                f'<td class="number">{_text(cell)}</td>'
                for cell in (row.worst, row.middle, row.best, str(row.measured))
            )
            yield f"<tr><th>{_text(row.title)}</th>{cells}</tr>"
        yield "</table>"
    yield from _heat_map(found)
    yield from _cards(found)
    if said := untested(found):
        yield heading(tr("Not tested")) + "<ul>"
        yield from (f"<li>{_text(text)}</li>" for text in said)
        yield "</ul>"


def _heat_map(found: Preflight) -> Iterator[str]:
    speeds = pair_speeds(found)
    known = [value for value in speeds.values() if value]
    if len(found.nodes) < 3 or not speeds:
        return
    best = max(known, default=0.0)
    worst_of: dict[int, float] = {}
    for pair, value in speeds.items():
        for node in pair:
            worst_of[node] = min(worst_of.get(node, best), value or 0.0)
    shown = sorted(sorted(worst_of, key=lambda node: worst_of[node])[:_MOST_NODES])
    place = {node: position for position, node in enumerate(shown)}
    labels = _LABEL if len(shown) <= _LABELLED else 8
    side = labels + max(_CELL * len(shown), _LEGEND) + 8
    tall = _CELL * len(shown) + 48
    title = _text(tr("Bus bandwidth between two nodes"))
    yield f"<figure><figcaption>{title}</figcaption>"
    yield (f'<svg viewBox="0 0 {side} {tall}" style="max-width: {min(side, 900)}px" role="img" aria-label="{title}">')
    for node, row in place.items():
        if labels == _LABEL:
            y = _CELL * row + _CELL - 3
            yield f'<text class="end" x="{labels - 6}" y="{y}">{_text(found.name(node))}</text>'
    for (a, b), value in sorted(speeds.items()):
        if a in place and b in place:
            for left, top in ((a, b), (b, a)):
                yield _cell(found, labels + _CELL * place[left], _CELL * place[top], (a, b), value, best)
    yield _legend(labels, _CELL * len(shown) + 10, best)
    yield "</svg></figure>"


def _cell(found: Preflight, x: int, y: int, pair: tuple[int, int], value: float | None, best: float) -> str:
    first, second = map(found.name, pair)
    inner = _CELL - 1
    if not value:
        said = _text(tr("{first} and {second}: failed", first=first, second=second))
        return (
            f'<g class="failed"><rect x="{x}" y="{y}" width="{inner}" height="{inner}"/>'
            f'<path d="M{x} {y}l{inner} {inner}M{x + inner} {y}l-{inner} {inner}"/><title>{said}</title></g>'
        )
    share = value / best
    said = _text(
        tr(
            "{first} and {second}: {speed}, {share} of the fastest pair",
            first=first,
            second=second,
            speed=quantity(value, "B/s"),
            share=percent(share),
        )
    )
    return (
        f'<rect class="heat" x="{x}" y="{y}" width="{inner}" height="{inner}" '
        f'fill-opacity="{0.06 + 0.94 * (1 - share):.2f}"><title>{said}</title></rect>'
    )


def _legend(x: int, y: int, best: float) -> str:
    cells = "".join(
        f'<rect class="heat" x="{x + 22 * step}" y="{y}" width="22" height="10" '
        f'fill-opacity="{0.06 + 0.94 * (1 - share):.2f}"/>'
        for step, share in enumerate((1.0, 0.75, 0.5, 0.25, 0.0))
    )
    said = tr("{best} (light) to 0; a cross: failed", best=quantity(best, "B/s"))
    return f'{cells}<text x="{x}" y="{y + 24}">{_text(said)}</text>'


def _cards(found: Preflight) -> Iterator[str]:
    """Units by the rate of their matrix product, slowest first."""
    measured = [
        (figure.value, figure.dtype, unit)
        for unit in found.units
        if (figure := next((item for item in unit.figures if item.quantity is Quantity.MATMUL), None))
    ]
    if len(measured) < 2:
        return
    measured.sort(key=lambda item: item[0])
    best = measured[-1][0]
    yield heading(tr("Units by their matrix product, slowest first"))
    yield "<table>"
    for value, dtype, unit in measured[:_BARS]:
        width = f"{100 * value / best:.1f}%"
        yield (
            f"<tr><th>{_text(_unit(found, unit))}</th>"
            f'<td class="number">{_text(dtype)} {_text(quantity(value, "FLOP/s"))}</td>'
            f'<td class="wide"><div class="bar c0" style="width: {width}"></div></td></tr>'
        )
    yield "</table>"
    if len(measured) > _BARS:
        yield f"<p>{_text(tr('and {more} faster ones', more=len(measured) - _BARS))}</p>"


def _unit(found: Preflight, unit: Unit) -> str:
    return f"{found.name(unit.node)} {'CPUs' if unit.device == 'cpu' else f'GPU {unit.local}'}"
