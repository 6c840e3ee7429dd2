"""One `.gdr` file: a rank, a loader worker, or samples of the machine; its blocks of columns as one table."""

from array import array
from collections import Counter
from typing import Any

from gpudoctor.lang import SpokenError
from gpudoctor.model.external_files import load_json
from gpudoctor.model.read_limits import COLUMNS as MOST_COLUMNS
from gpudoctor.model.read_limits import FRAMES, RECORD, RECORD_BYTES, RECORDS
from gpudoctor.model.records import dataclass, field, frozen
from gpudoctor.model.signs.recording import Process, Record, Table
from gpudoctor.probe.wire.frames import COLUMNS, JSON, ForeignFile, Frames, unpacked
from gpudoctor.vitals.recording.fields import judged, moment, text, whole
from gpudoctor.vitals.recording.plausibility import sound

__all__ = ["Contents", "ForeignFile", "Reported", "as_process", "read_frames"]

# Blocks of columns joined into one table.


class BadBlock(SpokenError):
    """A block whose header and length disagree: its sum is right, so whoever wrote it was broken."""


@dataclass(slots=True)
class Columns:
    """Columns of one table, which grow by blocks."""

    rows: int = 0
    columns: dict[str, "array[float] | array[int]"] = field(default_factory=dict)

    def append(self, rows: int, block: dict[str, "array[float] | array[int]"]) -> None:
        """Rows at the end; where a column was not there before, or is not there now, it is not known (NaN)."""
        if len(self.columns.keys() | block.keys()) > MOST_COLUMNS.most:
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
        if not 0 < len(described) == len(codes) <= MOST_COLUMNS.most:
            raise ValueError
        values = unpacked(list(codes.values()), rows, payload[len(head) + len(separator) :])
    except (ValueError, KeyError, TypeError) as error:
        raise BadBlock from error
    return name, rows, dict(zip(codes, values, strict=True))


# One `.gdr` file: a rank, a loader worker, or the samples of the machine.


@dataclass(slots=True, kw_only=True)
class Contents:
    """What a file of frames holds."""

    records: list[Record] = field(default_factory=list)
    tables: dict[str, Columns] = field(default_factory=dict)
    lost: int = 0
    """Bytes at its end that could not be read."""
    bad: bool = False
    """Whether frames arrived whole and make no sense, or are beyond what is read."""
    wrong: Counter[str] = field(default_factory=Counter)
    """What made no sense and was taken out: fields, columns and rows, with how often."""

    def table(self, name: str) -> Table:
        """A table as far as it can be true, empty where there is none."""
        return sound(name, self.tables.pop(name, Columns()).table(), self.wrong)


@frozen
class Reported:
    """A process with what its `start` said about its place in the job."""

    process: Process
    ranked: bool


def read_frames(data: bytes) -> Contents:
    """Records and tables of a file's bytes. Raises `ForeignFile`."""
    contents = Contents()
    frames = Frames(data)
    spent = 0
    for number, (kind, payload) in enumerate(frames):
        if number >= FRAMES.most:
            contents.bad = True
            break
        if kind == JSON:
            spent += len(payload)
            room = len(contents.records) < RECORDS.most and spent <= RECORD_BYTES.most
            record = _record(payload, contents.wrong) if room else None
            if record is None:
                contents.bad = True
            else:
                contents.records.append(record)
        elif kind == COLUMNS:
            try:
                name, rows, block = read_block(payload)
                contents.tables.setdefault(name, Columns()).append(rows, block)
            except BadBlock:
                contents.bad = True
    contents.lost = frames.lost
    return contents


def _record(payload: memoryview, wrong: Counter[str]) -> Record | None:
    if len(payload) > RECORD.most:
        return None
    try:
        fields = load_json(bytes(payload))
        type, t = text(fields.pop("type")), moment(fields.pop("t"))
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    return Record(type=type, t=t, fields=judged(type, fields, wrong))


def as_process(contents: Contents, named: tuple[int | None, int], node: str) -> Reported:
    """The process that wrote a file; rank (None for `x`) and pid are those of the file's name.

    Its own `start` counts for more than the name; a file that was cut before it has the name alone.
    """
    start = next((record for record in contents.records if record.type == "start"), None)
    fields: dict[str, Any] = {"rank": named[0], "pid": named[1], "wall": 0.0}
    fields |= {name: value for name, value in (start.fields if start else {}).items() if value is not None}
    rank = fields["rank"]
    process = Process(
        rank=rank or 0,
        node=str(fields.get("node") or node),
        pid=fields["pid"],
        wall=float(fields["wall"]),
        steps=contents.table("steps"),
        records=tuple(contents.records),
        lost_bytes=contents.lost,
        clean=any(record.type == "end" and record.get("clean") is True for record in contents.records),
    )
    return Reported(process=process, ranked=rank is not None)
