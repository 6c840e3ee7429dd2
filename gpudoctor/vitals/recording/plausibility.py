"""Whether a table's numbers can be true: what cannot be is taken out once, here, and counted.

Rows must go on: a later step, a later moment. Amounts are at least zero and less than 2^63, or not known (NaN).
"""

import math
import sys
from array import array
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import compress, islice
from operator import le, lt

from gpudoctor.lang import say
from gpudoctor.model.signs.recording import Table
from gpudoctor.probe.wire.steps import NUMBERS

_LITTLE = sys.byteorder == "little"
_MOST = float(1 << 63)
_CLEAR = {"f": bytes(range(0x5F)), "d": bytes(range(0x43))}
"""Highest bytes of numbers that are at least zero and less than 2^63: sign and most of the exponent."""
_SIGNED = ("_margin", "_temperature")
"""Ends of columns that go below zero."""
_STEPS, _MACHINE = "steps", "machine"
_NEEDED = {_STEPS: ("index", "t", "duration"), _MACHINE: ("t",)}
"""Columns without which a row says nothing."""


def sound(name: str, table: Table, wrong: Counter[str]) -> Table:
    """The table without rows that go back, numbers that cannot be put to NaN; both are counted in `wrong`."""
    if name == _STEPS:
        orders = {"index": lt, "t": le}
    elif name == _MACHINE:
        orders = {"t": le}
    else:
        return table
    if not len(table):
        return table
    for key in _NEEDED[name]:
        if key not in table.columns:
            wrong[say("rows of {name} without {key}", name=name, key=key)] += len(table)
            return Table(columns={})
    columns = {key: _amounts(f"{name}.{key}", key, values, wrong) for key, values in table.columns.items()}
    given = {key: columns[key] for key in orders if key in columns}
    if all(_goes_on(values, orders[key]) for key, values in given.items()):
        return Table(columns=columns)
    keep = _kept(given)
    wrong[say("rows of {name} that go back", name=name)] += len(keep) - sum(keep)
    return Table(columns={key: array(values.typecode, compress(values, keep)) for key, values in columns.items()})


def _amounts(
    where: str, key: str, values: "array[float] | array[int]", wrong: Counter[str]
) -> "array[float] | array[int]":
    """The column with every number that cannot be true put to NaN."""
    code = values.typecode
    if key in NUMBERS or code not in _CLEAR:
        return values
    width = values.itemsize
    top = values.tobytes()[width - 1 :: width] if _LITTLE else values.tobytes()[::width]
    if not top.translate(None, _CLEAR[code]):
        return values
    least = -1e6 if key.endswith(_SIGNED) else 0.0
    bad = [row for row, value in enumerate(values) if not (value != value or least <= value < _MOST)]
    if not bad:
        return values
    wrong[where] += len(bad)
    mended = array(code, values)
    for row in bad:
        mended[row] = math.nan
    return mended


def _goes_on(values: Sequence[float], order: object) -> bool:
    assert callable(order)
    known = not math.isnan(values[0]) and math.isfinite(values[-1])
    return known and all(map(order, values, islice(values, 1, None)))


def _kept(given: Mapping[str, Sequence[float]]) -> list[bool]:
    """Which rows go on from the last one that did."""
    strict = {"index"}
    last = dict.fromkeys(given, -math.inf)
    keep: list[bool] = []
    for row in zip(*given.values(), strict=True):
        here = dict(zip(given, row, strict=True))
        good = all(value > last[key] if key in strict else value >= last[key] for key, value in here.items())
        keep.append(good)
        if good:
            last = here
    return keep
