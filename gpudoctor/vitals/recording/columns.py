"""Blocks of columns joined into one table."""

import sys
from array import array
from dataclasses import dataclass, field

from gpudoctor.model.external_files import load_json
from gpudoctor.model.read_limits import COLUMNS, RECORD
from gpudoctor.model.signs.recording import Table
from gpudoctor.vitals.recording.fields import text, whole

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
        if len(self.columns.keys() | block.keys()) > COLUMNS.most:
            raise BadBlock
        for name, values in block.items():
            known = self.columns.get(name)
            if known is None:
                known = values if not self.rows else array("d", [float("nan")]) * self.rows
                self.columns[name] = known
                if not self.rows:
                    continue
            if known.typecode != values.typecode:
                known, values = self._wide(name), array("d", values)
            known.extend(values)  # type: ignore[arg-type]  # of one type code by now
        self.rows += rows
        for name, known in list(self.columns.items()):
            if len(known) < self.rows:
                self._wide(name).extend(array("d", [float("nan")]) * (self.rows - len(known)))

    def _wide(self, name: str) -> "array[float]":
        """A column as float64, copied once only: another block may need it at each of its rows."""
        known = self.columns[name]
        if known.typecode != "d":
            known = self.columns[name] = array("d", known)
        return known  # type: ignore[return-value]  # of float64 by now

    def table(self) -> Table:
        """The table as it stands."""
        return Table(columns=self.columns)


def read_block(payload: memoryview) -> tuple[str, int, dict[str, "array[float] | array[int]"]]:
    """Name, number of rows and columns of one block. Raises `BadBlock`."""
    raw = bytes(payload)
    head, separator, _ = raw.partition(b"\n")
    try:
        if len(head) > RECORD.most:
            raise ValueError
        header = load_json(head)
        name, rows, described = text(header["table"]), whole(header["n"]), list(header["columns"])
        widths = [(text(column), text(code), _WIDTHS[code]) for column, code in described]
    except (ValueError, KeyError, TypeError) as error:
        raise BadBlock from error
    position = len(head) + len(separator)
    if not widths or position + rows * sum(width for _, _, width in widths) != len(raw):
        raise BadBlock
    if not len({column for column, _, _ in widths}) == len(widths) <= COLUMNS.most:
        raise BadBlock  # of two columns of one name nobody knows which is meant
    block: dict[str, array[float] | array[int]] = {}
    for column, code, width in widths:
        values: array[float] = array(_NATIVE[code])
        values.frombytes(raw[position : position + rows * width])
        if sys.byteorder == "big":
            values.byteswap()
        block[column] = values
        position += rows * width
    return name, rows, block
