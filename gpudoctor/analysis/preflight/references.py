"""What cards reach elsewhere: measured figures and floors of other tools, with sources, in `data/references.json`.

The peaks of matrix products are in `gpudoctor.model.peaks`. No row stands for another card.
"""

import json
from enum import Enum
from functools import cache
from pathlib import Path

from gpudoctor.model.peaks import names_card
from gpudoctor.model.plain_data import from_plain
from gpudoctor.model.records import frozen
from gpudoctor.model.signs.preflight import Figure, Quantity


class ReferenceKind(Enum):
    """Where a reference comes from; each asks for another distance."""

    MEASURED = "measured"
    """Somebody reached it with healthy hardware: most healthy cards come close."""
    FLOOR = "floor"
    """A tool or an operator rejects hardware below it."""


@frozen
class Reference:
    """One figure that a card reached, or must reach, elsewhere."""

    card: str
    quantity: Quantity
    value: float
    """Per second, as in `Figure`."""
    kind: ReferenceKind
    source: str
    dtype: str = ""


@cache
def _table() -> tuple[dict[str, list[str]], tuple[Reference, ...]]:
    """Names by card, and all rows. By path: the import of importlib.resources costs more than the reading."""
    with open(Path(__file__).parent / "data" / "references.json", encoding="utf-8") as stream:
        data = json.load(stream)
    return data["cards"], from_plain(tuple[Reference, ...], data["references"])


def all_references() -> tuple[Reference, ...]:
    """Every row of the table."""
    return _table()[1]


@cache  # a name a fleet: each figure of each card asks for it
def cards_named(name: str) -> tuple[str, ...]:
    """The cards of the table that a driver's name (`NVIDIA H100 80GB HBM3`) fits, the most exact one first.

    Empty for a card that the table does not know, a laptop's or a MIG slice.
    """
    fits = [
        (len(words.split()), card) for card, names in _table()[0].items() for words in names if names_card(words, name)
    ]
    most = max((count for count, _ in fits), default=0)
    exact = {card for count, card in fits if count == most}
    wider = {card for _, card in fits if any(_is_wider(card, other) for other in exact)}
    return (*sorted(exact), *sorted(wider - exact))


def _is_wider(card: str, other: str) -> bool:
    """Whether `other` is a variant of `card` by its memory alone: `A100 SXM` of `A100 SXM 80GB`."""
    extra = set(other.split()) - set(card.split())
    return set(card.split()) < set(other.split()) and all(word.endswith("GB") for word in extra)


def references_for(name: str, figure: Figure) -> tuple[Reference, ...]:
    """The references for a figure of cards called `name`: the measured one first, then the floor; empty: unknown."""
    known = cards_named(name)
    rows = [
        row
        for row in all_references()
        if row.card in known and row.quantity is figure.quantity and row.dtype in ("", figure.dtype)
    ]
    groups = [[row for row in rows if row.kind is kind] for kind in ReferenceKind]
    return tuple(min(group, key=lambda row: known.index(row.card)) for group in groups if group)
