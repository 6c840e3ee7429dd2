"""Logs of `nvidia-smi --query-gpu=timestamp,... --format=csv -l 1` as recordings: a machine without steps."""

import csv
import math
import os
import re
from array import array
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import IO

from gpudoctor.errors import UsageError
from gpudoctor.model.doors import Refused, open_file, read_head
from gpudoctor.model.limits import GPUS, SMI_CELLS, SMI_LINE, SMI_LOG
from gpudoctor.model.signs.recording import Recording, Table
from gpudoctor.vitals.recording.fields import left_out
from gpudoctor.vitals.recording.sound import sound

_TIMES = ("%Y/%m/%d %H:%M:%S.%f", "%Y/%m/%d %H:%M:%S", "%Y-%m-%d %H:%M:%S.%f", "%Y-%m-%d %H:%M:%S")
_IDENTITIES = ("index", "gpu_uuid", "uuid", "pci.bus_id", "gpu_bus_id", "pci.bus", "serial", "gpu_serial")
_MIB = 1 << 20
_TICK = 0.5
"""Seconds within which rows belong to one turn of the loop, where no column tells the GPUs apart."""


def _number(text: str) -> float:
    """The number at the beginning of `35 %`, `1024 MiB`, `71.3 W`; NaN for `[N/A]`."""
    match = re.match(r"\s*(-?[0-9]{1,15}(?:\.[0-9]{1,15})?)(?![0-9])", text)
    return float(match[1]) if match else math.nan


def _mask(text: str) -> float:
    try:
        return float(int(text.strip()[:20], 16))
    except ValueError:
        return math.nan


_COLUMNS: dict[str, tuple[str, Callable[[str], float]]] = {
    "utilization.gpu": ("util", lambda text: _number(text) / 100),
    "memory.used": ("memory", lambda text: _number(text) * _MIB),
    "power.draw": ("power", _number),
    "power.draw.instant": ("power", _number),
    "power.draw.average": ("power", _number),
    "temperature.gpu": ("temperature", _number),
    "clocks.sm": ("clock", _number),
    "clocks.current.sm": ("clock", _number),
    "clocks_throttle_reasons.active": ("reasons", _mask),
    "clocks_event_reasons.active": ("reasons", _mask),
    "temperature.memory": ("memory_temperature", _number),
    "temperature.gpu.tlimit": ("margin", _number),
    "pcie.link.width.current": ("pcie_width", _number),
    "pcie.link.gen.current": ("pcie_generation", _number),
    "pcie.link.gen.gpucurrent": ("pcie_generation", _number),
}
"""Columns of nvidia-smi, without their units, and ours."""
_LIMITS = {
    "index": "index",
    "pcie.link.width.max": "pcie_width_max",
    "pcie.link.gen.max": "pcie_generation_max",
}
"""What does not change, and its fact."""


def is_smi_log(path: Path) -> bool:
    """Whether a file begins with a header of `--query-gpu` that has a timestamp."""
    try:
        head = read_head(path, 4096).partition(b"\n")[0].decode("utf-8", "replace")
    except OSError:
        return False
    names = {_plain(name) for name in head.split(",")}
    return "timestamp" in names and bool(names & {*_COLUMNS, "memory.total", "name", "gpu_name"})


def read_smi_log(name: str) -> Recording:
    """The log as a recording of the machine. Raises `UsageError` for one that holds no readings."""
    log = _Log()
    try:
        with open_file(name) as stream:
            if os.fstat(stream.fileno()).st_size > SMI_LOG.most:
                raise Refused(f"it is {SMI_LOG.words}")
            for at, gpu, row in _samples(_rows(_lines(stream))):
                log.add(at, gpu, row)
    except OSError as error:
        raise UsageError(f"{name}: cannot be read: {error.strerror or error}") from error
    if not log.turns:
        raise UsageError(
            f"{name}: holds no readings; write it with --format=csv, header and timestamp included"
        )
    wrong: Counter[str] = Counter()
    table = sound("machine", Table(columns=log.columns()), wrong)
    return Recording(
        path=name,
        command=(),
        cwd="",
        started=datetime.fromtimestamp(log.turns[0]).astimezone().isoformat(),
        machine=table,
        machine_facts={"gpus": list(log.facts.values())},
        origin="nvidia-smi",
        problems=(f"{name}: {left_out(wrong)}",) if wrong else (),
    )


class _Log:
    """Columns that grow turn by turn; a GPU that says nothing in a turn is not known (NaN) there."""

    def __init__(self) -> None:
        self.turns: array[float] = array("d")
        self.facts: dict[str, dict[str, object]] = {}
        self._places: dict[str, int] = {}
        self._values: dict[str, array[float]] = {}

    def add(self, at: float, gpu: str, row: dict[str, str]) -> None:
        """One row of the log. Raises `Refused` beyond the budget."""
        if not self.turns or abs(at - self.turns[-1]) > _TICK:
            self.turns.append(at)
        place = self._places.setdefault(gpu, len(self._places))
        if place >= GPUS.most:
            raise Refused(f"it names {GPUS.beyond}")
        if gpu not in self.facts:
            self.facts[gpu] = _facts(row)
        for theirs, (ours, read) in _COLUMNS.items():
            if theirs in row:
                self._put(f"gpu{place}_{ours}", read(row[theirs]))

    def _put(self, column: str, value: float) -> None:
        values = self._values.setdefault(column, array("d"))
        missing = len(self.turns) - len(values)
        if missing:
            values.extend([math.nan] * missing)
            if len(self._values) * len(self.turns) > SMI_CELLS.most:
                raise Refused(f"it has {SMI_CELLS.words}")
        values[-1] = value

    def columns(self) -> dict[str, "array[float] | array[int]"]:
        """The table's columns; times count from the first turn."""
        turns = len(self.turns)
        for values in self._values.values():
            values.extend([math.nan] * (turns - len(values)))
        return {"t": array("d", (at - self.turns[0] for at in self.turns)), **self._values}


def _plain(name: str) -> str:
    """A column's name without its unit: `utilization.gpu [%]`."""
    return name.partition("[")[0].strip().strip("\ufeff").lower()


def _lines(stream: IO[bytes]) -> Iterator[str]:
    """Lines of text; of one beyond its budget only the beginning, which then lacks its columns."""
    while raw := stream.readline(SMI_LINE.most):
        line = raw
        while not line.endswith(b"\n") and (line := stream.readline(SMI_LINE.most)):
            pass
        yield raw.translate(None, b"\0\r").decode("utf-8", "replace")


def _rows(lines: Iterator[str]) -> Iterator[dict[str, str]]:
    """Rows by column; a header that stands again (a log that was appended to) begins anew.

    A quote that is not closed ends with its line: values of nvidia-smi have no newlines.
    """
    header: list[str] = []
    for line in lines:
        cells = next(csv.reader([line], skipinitialspace=True), [])
        plain = [_plain(cell) for cell in cells] if "timestamp" in line.lower() else []
        if "timestamp" in plain:
            header = plain
        elif header and len(cells) == len(header):  # a row cut short at the end is left out
            yield dict(zip(header, cells, strict=True))


def _samples(rows: Iterator[dict[str, str]]) -> Iterator[tuple[float, str, dict[str, str]]]:
    """Time, GPU and row."""
    turn, place = -math.inf, 0
    for row in rows:
        at = _instant(row["timestamp"])
        if at is None:
            continue
        identity = next((name for name in _IDENTITIES if name in row), None)
        if identity is not None:
            yield at, row[identity].strip()[:200], row
            continue
        turn, place = (at, 0) if at - turn > _TICK else (turn, place + 1)
        yield at, str(place), row


def _instant(text: str) -> float | None:
    for form in _TIMES:
        try:
            return datetime.strptime(text.strip(), form).timestamp()
        except (ValueError, OverflowError, OSError):
            continue
    return None


def _facts(row: dict[str, str]) -> dict[str, object]:
    total, limit = _number(row.get("memory.total", "")), _number(row.get("power.limit", ""))
    told = {ours: _number(row.get(theirs, "")) for theirs, ours in _LIMITS.items()}
    return {
        **{ours: int(value) for ours, value in told.items() if not math.isnan(value)},
        "name": (row.get("name") or row.get("gpu_name") or "").strip(),
        "bytes": None if math.isnan(total) else int(total * _MIB),
        "power_limit": None if math.isnan(limit) else limit,
    }
