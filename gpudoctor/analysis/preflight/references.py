"""What cards and links reach elsewhere: measured figures, floors of other tools and data sheets, with sources.

The peaks of matrix products are in `gpudoctor.model.peaks`; this table holds everything else. A bus bandwidth
means nothing without its payload, algorithm and number of nodes, so a figure is compared with rows of its own
kind only. What the table does not know is unknown: no row stands for another card, link or number of nodes.
"""

import json
from dataclasses import dataclass
from enum import Enum
from functools import cache
from pathlib import Path

from gpudoctor.model.peaks import names_card, peak
from gpudoctor.model.signs.preflight import Figure, Quantity


class ReferenceKind(Enum):
    """Where a reference comes from; each asks for another distance."""

    MEASURED = "measured"
    """Somebody reached it with healthy hardware: most healthy cards come close."""
    FLOOR = "floor"
    """A tool or an operator rejects hardware below it."""
    DATA_SHEET = "data sheet"
    """What the vendor prints; real programs stay below."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """One figure that a card or link reached, or must reach, elsewhere."""

    card: str
    quantity: Quantity
    value: float
    """Per second, as in `Figure`."""
    kind: ReferenceKind
    source: str
    dtype: str = ""
    payload: int = 0
    """Bytes; 0 where it has no meaning."""
    algorithm: str = ""
    """`ring`, `nvls`; "" where it is not known."""
    default: bool = True
    """Whether the library chose the algorithm by itself."""
    nodes: int = 1
    cards: int = 0
    """Cards of each node that took part; 0 where it has no meaning."""
    link: str = ""
    """`nvlink`, `xgmi`, or the rate of a node's network, `3200 Gb/s`."""


_ORDER = (ReferenceKind.MEASURED, ReferenceKind.FLOOR, ReferenceKind.DATA_SHEET)


@cache
def _table() -> tuple[dict[str, list[str]], tuple[Reference, ...]]:
    """Names by card, and all rows. By path: the import of importlib.resources costs more than the reading."""
    with open(Path(__file__).parent / "data" / "references.json", encoding="utf-8") as stream:
        data = json.load(stream)
    rows = tuple(
        Reference(
            **{
                **row,
                "quantity": Quantity(row["quantity"]),
                "kind": ReferenceKind(row["kind"]),
                "default": row.get("default", "algorithm" not in row),
            }
        )
        for row in data["references"]
    )
    return data["cards"], rows


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


def references_for(
    name: str, figure: Figure, *, nodes: int = 1, cards: int = 0, link: str = ""
) -> tuple[Reference, ...]:
    """The references for a figure of cards called `name`: measured ones first, then floors and data sheets.

    Of rows with a payload, one of the nearest smaller payload is fair: a larger message is not slower. Between
    nodes the rate of a node's network must be known (`link`), as `3200 Gb/s`. Empty means: unknown.
    """
    known = cards_named(name)
    rows = [
        row
        for row in all_references()
        if row.card in known
        and row.quantity is figure.quantity
        and row.dtype in ("", figure.dtype)
        and row.nodes == nodes
        and (not cards or row.cards in (0, cards))
        and (row.link == link if nodes > 1 else not link or row.link in ("", link))
        and (row.default if not figure.algorithm else row.algorithm == figure.algorithm)
        and row.payload <= figure.payload * 1.01
    ]
    found = [
        max(group, key=lambda row: (row.payload, -known.index(row.card)))
        for kind in _ORDER
        if (group := [row for row in rows if row.kind is kind])
    ]
    if figure.quantity is Quantity.MATMUL and figure.dtype in ("bf16", "fp16"):
        sheet = peak(name)
        if sheet is not None:
            found.append(
                Reference(
                    card=sheet.card, quantity=Quantity.MATMUL, value=sheet.dense, kind=ReferenceKind.DATA_SHEET,
                    source=sheet.source, dtype=figure.dtype,
                )
            )  # fmt: skip
    return tuple(found)
