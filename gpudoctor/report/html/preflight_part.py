"""What the page shows of an active examination: bandwidth between nodes as a heat map, units by their speed."""

from typing import Any

from gpudoctor.lang import tr
from gpudoctor.model.signs.preflight import Preflight, Quantity
from gpudoctor.report.preflight_words import pair_speeds
from gpudoctor.text import percent, quantity

_MOST_NODES = 128
"""Sides of the heat map; a larger one shows the slowest nodes."""
_CELL, _LABEL = 14, 120
_LEGEND = 220
_LABELLED = 64
"""Up to so many nodes, each row has its name."""


def heat_map(found: Preflight) -> dict[str, Any]:
    """Sizes, names of rows, and cells as (x, y, share of the fastest or None, words); empty for a few nodes."""
    speeds = pair_speeds(found)
    if len(found.nodes) < 3 or not speeds:
        return {}
    best = max(filter(None, speeds.values()), default=0.0)
    worst_of: dict[int, float] = {}
    for pair, value in speeds.items():
        for node in pair:
            worst_of[node] = min(worst_of.get(node, best), value or 0.0)
    shown = sorted(sorted(worst_of, key=lambda node: worst_of[node])[:_MOST_NODES])
    place = {node: _CELL * position for position, node in enumerate(shown)}
    named = len(shown) <= _LABELLED
    left = _LABEL if named else 8
    cells = []
    for (a, b), value in sorted(speeds.items()):
        if a in place and b in place:
            first, second = map(found.name, (a, b))
            share = value / best if value else None
            said = tr("{first} and {second}: failed", first=first, second=second)
            if value and share:
                said = tr(
                    "{first} and {second}: {speed}, {share} of the fastest pair",
                    first=first, second=second, speed=quantity(value, "B/s"), share=percent(share),
                )  # fmt: skip
            cells += [(left + place[x], place[y], share, said) for x, y in ((a, b), (b, a))]
    return {
        "left": left,
        "wide": left + max(_CELL * len(shown), _LEGEND) + 8,
        "tall": _CELL * len(shown),
        "names": [found.name(node) for node in shown] if named else [],
        "cells": cells,
        "best": quantity(best, "B/s"),
    }


def units_by_speed(found: Preflight) -> list[tuple[float, str, str]]:
    """Rate of the matrix product, type and name of each unit, slowest first."""
    measured = [
        (
            figure.value,
            figure.dtype,
            f"{found.name(unit.node)} {'CPUs' if unit.device == 'cpu' else f'GPU {unit.local}'}",
        )
        for unit in found.units
        if (figure := next((item for item in unit.figures if item.quantity is Quantity.MATMUL), None))
    ]
    return sorted(measured, key=lambda item: item[0])
