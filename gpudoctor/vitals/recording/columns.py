"""Blocks of columns joined into one table."""

from array import array
from dataclasses import dataclass, field

from gpudoctor.model.external_files import load_json
from gpudoctor.model.read_limits import COLUMNS, RECORD
from gpudoctor.model.signs.recording import Table
from gpudoctor.probe.wire.frames import unpacked
from gpudoctor.vitals.recording.fields import text, whole


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
    head, separator, _ = bytes(payload).partition(b"\n")
    try:
        if len(head) > RECORD.most:
            raise ValueError
        header = load_json(head)
        name, rows, described = text(header["table"]), whole(header["n"]), list(header["columns"])
        codes = {text(column): text(code) for column, code in described}
        # of two columns of one name nobody knows which is meant
        if not 0 < len(described) == len(codes) <= COLUMNS.most:
            raise ValueError
        values = unpacked(list(codes.values()), rows, payload[len(head) + len(separator) :])
    except (ValueError, KeyError, TypeError) as error:
        raise BadBlock from error
    return name, rows, dict(zip(codes, values, strict=True))
