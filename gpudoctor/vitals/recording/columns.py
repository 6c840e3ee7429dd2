"""Blocks of columns joined into one table."""

import json
import sys
from array import array
from dataclasses import dataclass, field

from gpudoctor.model.signs.recording import Table

_WIDTHS = {"I": 4, "Q": 8, "f": 4, "d": 8, "H": 2, "B": 1}
_NATIVE = {code: next(c for c in (code, "L") if array(c).itemsize == width) for code, width in _WIDTHS.items()}
"""The array type of the same width on this machine (`I` is 4 bytes wherever CPython runs today)."""


class BadBlock(Exception):
    """A block whose header and length disagree: its sum is right, so whoever wrote it was broken."""


@dataclass(slots=True)
class Columns:
    """Columns of one table, which grow by blocks."""

    rows: int = 0
    columns: dict[str, "array[float] | array[int]"] = field(default_factory=dict)

    def append(self, rows: int, block: dict[str, "array[float] | array[int]"]) -> None:
        """Rows at the end; where a column was not there before, or is not there now, it is not known (NaN)."""
        for name, values in block.items():
            known = self.columns.get(name)
            if known is None:
                known = values if not self.rows else array("d", [float("nan")]) * self.rows
                self.columns[name] = known
                if not self.rows:
                    continue
            if known.typecode != values.typecode:
                known = self.columns[name] = array("d", known)
                values = array("d", values)
            known.extend(values)  # type: ignore[arg-type]  # of one type code by now
        self.rows += rows
        for name, known in self.columns.items():
            if len(known) < self.rows:
                wide = array("d", known)
                wide.extend(array("d", [float("nan")]) * (self.rows - len(known)))
                self.columns[name] = wide

    def table(self) -> Table:
        """The table as it stands."""
        return Table(columns=self.columns)


def read_block(payload: memoryview) -> tuple[str, int, dict[str, "array[float] | array[int]"]]:
    """Name, number of rows and columns of one block. Raises `BadBlock`."""
    raw = bytes(payload)
    head, separator, _ = raw.partition(b"\n")
    try:
        header = json.loads(head)
        name, rows, described = str(header["table"]), int(header["n"]), list(header["columns"])
        widths = [(str(column), str(code), _WIDTHS[code]) for column, code in described]
    except (ValueError, KeyError, TypeError) as error:
        raise BadBlock from error
    position = len(head) + len(separator)
    if rows < 0 or position + rows * sum(width for _, _, width in widths) != len(raw):
        raise BadBlock
    block: dict[str, array[float] | array[int]] = {}
    for column, code, width in widths:
        values: array[float] = array(_NATIVE[code])
        values.frombytes(raw[position : position + rows * width])
        if sys.byteorder == "big":
            values.byteswap()
        block[column] = values
        position += rows * width
    return name, rows, block
