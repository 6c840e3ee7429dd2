"""What GPUs can compute at most, in FLOPs a second: `peaks.json`, for model FLOPs utilisation (MFU).

A figure is for dense matrix products of 16-bit numbers with 32-bit sums, as PyTorch makes them: bf16, or fp16 on
cards before Ampere. Where a data sheet prints only the figure for 2:4 sparse matrices, the row has half of it.
"""

import json
import re
from functools import cache
from pathlib import Path

from gpudoctor.model.records import frozen


@frozen(kw_only=False)
class Peak:
    """The most that a card computes, in FLOPs a second."""

    card: str
    """The words of the card's name that tell it apart: the driver's name holds all of them."""
    dense: float
    source: str


_VARIANTS = frozenset({"ti", "super", "d", "laptop", "mobile", "max", "mig"})
"""Words of a name that make it another card, or a part of one: a figure without the word is not theirs."""


@cache
def peaks() -> tuple[Peak, ...]:
    """Every card by name, with its source."""
    rows = json.loads(Path(__file__).with_name("peaks.json").read_text(encoding="utf-8"))
    return tuple(Peak(row["card"], row["tera"] * 1e12, row["source"]) for row in rows)


@cache  # each figure of each card of a fleet asks for it
def peak(name: str) -> Peak | None:
    """The peak of a card by its driver's name; None if it is not in the table, a laptop's or a MIG slice."""
    fits = [row for row in peaks() if names_card(row.card, name)]
    return max(fits, key=lambda row: len(_words(row.card)), default=None)


def names_card(card: str, name: str) -> bool:
    """Whether a driver's name holds all words of a card's, and none more that makes it another card."""
    words, said = _words(card), _words(name)
    return words <= said and not (said - words) & _VARIANTS


def peak_flops(name: str) -> float | None:
    """FLOPs a second of a card by its driver's name, for dense matrices; None for one that is not known."""
    found = peak(name)
    return found.dense if found is not None else None


def _words(name: str) -> frozenset[str]:
    return frozenset(re.findall(r"[a-z0-9]+", name.lower()))
