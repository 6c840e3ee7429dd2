"""Logs of `nvidia-smi` as recordings without steps.

- `--query-gpu=timestamp,... --format=csv -l 1` with its header, in UTF-8 or UTF-16 (a Windows shell's `>`): the GPUs
  over time;
- `-q`, the listing of one GPU after another: the survey of its last turn.
"""

import csv
import math
import os
import re
from array import array
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from gpudoctor.errors import UsageError
from gpudoctor.lang import say
from gpudoctor.model.external_files import RefusedFile, open_file, read_head
from gpudoctor.model.read_limits import GPUS, SMI_CELLS, SMI_LINE, SMI_LOG
from gpudoctor.model.signs.recording import Recording, Table
from gpudoctor.vitals.log_lines import lines_of, text_of
from gpudoctor.vitals.recording.fields import left_out
from gpudoctor.vitals.recording.plausibility import sound
from gpudoctor.vitals.smi_query.blocks import LISTING, blocks_of
from gpudoctor.vitals.smi_query.survey import Turns

Row = dict[str, str]

_TIMESTAMP = "timestamp"
_TIMES = ("%Y/%m/%d %H:%M:%S.%f", "%Y/%m/%d %H:%M:%S", "%Y-%m-%d %H:%M:%S.%f", "%Y-%m-%d %H:%M:%S")
_NAMES = frozenset(
    {"name", "gpu_name", "memory.total", "memory.used", "utilization.gpu", "power.draw", "temperature.gpu"}
)
"""Columns of which a header has at least one."""
_IDENTITIES = ("index", "gpu_uuid", "uuid", "pci.bus_id", "gpu_bus_id", "pci.bus", "serial", "gpu_serial")
_MIB = 1 << 20
_TICK = 0.5
"""Seconds within which rows belong to one turn of the loop."""
_BEST = say("write it with `nvidia-smi --query-gpu=timestamp,index,name,utilization.gpu,... --format=csv -l 1`")


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
_LIMITS = {"index": "index", "pcie.link.width.max": "pcie_width_max", "pcie.link.gen.max": "pcie_generation_max"}
"""What does not change, and its fact."""


def is_smi_log(path: Path) -> bool:
    """Whether a file begins as an output of nvidia-smi does."""
    try:
        head = text_of(read_head(path, 8192))
    except OSError:
        return False
    first = next((line for line in head.splitlines() if line.strip()), "")
    names = {_plain(cell) for cell in first.split(",")}
    header = names & _NAMES and (_TIMESTAMP in names or "[" in first or len(names & _NAMES) > 1)
    return bool(header) or _is_listing(head)


def _is_listing(head: str) -> bool:
    return any(LISTING in line for line in head.splitlines()[:12])


def _plain(name: str) -> str:
    """A column's name without its unit: `utilization.gpu [%]`."""
    return name.partition("[")[0].strip().strip("\ufeff").lower()


def read_smi_log(name: str) -> Recording:
    """The log as a recording of the machine, or the survey of a `-q`; `UsageError` for one that holds no readings."""
    log, turns, damage = _Log(), Turns(), ""
    try:
        listing = _is_listing(text_of(read_head(name, 8192)))
        with open_file(name) as stream:
            if os.fstat(stream.fileno()).st_size > SMI_LOG.most:
                raise RefusedFile(say("it is {words}", words=SMI_LOG.words))
            lines = lines_of(stream, SMI_LINE)
            for block in blocks_of(lines) if listing else ():
                turns.add(block)
                if len(turns) > GPUS.most:
                    raise RefusedFile(say("it names {beyond}", beyond=GPUS.beyond))
            for row in () if listing else _rows_of(lines):
                log.add(row)
    except OSError as error:
        damage = error.strerror or str(error)
        if not len(turns):
            raise UsageError("{name}: cannot be read: {damage}", name=name, damage=damage) from error
    if not log.turns and not len(turns):
        raise UsageError("{name}: has no readings with timestamps; {best}", name=name, best=_BEST)
    wrong: Counter[str] = Counter()
    table = sound("machine", Table(columns=log.columns()), wrong)
    problems = [say("{name}: {left_out}", name=name, left_out=left_out(wrong))] if wrong else []
    problems += [say("{name}: {damage}; gpudoctor read what precedes it", name=name, damage=damage)] if damage else []
    problems += [say("{name}: {sentence}", name=name, sentence=sentence) for sentence in turns.lacking()]
    return Recording(
        path=name,
        command=(),
        cwd="",
        started=datetime.fromtimestamp(log.turns[0]).astimezone().isoformat() if log.turns else "",
        machine=table,
        machine_facts={"gpus": list(log.facts.values())},
        survey=replace(turns.survey(name), problems=tuple(problems)) if len(turns) else None,
        origin="nvidia-smi",
        problems=tuple(problems),
    )


def _rows_of(lines: Iterator[str]) -> Iterator[Row]:
    """Rows by column; a header that stands again (a log that was appended to) begins anew.

    A quote that is not closed ends with its line: values of nvidia-smi have no newlines.
    """
    header: list[str] = []
    for line in lines:
        cells = next(csv.reader([line], skipinitialspace=True), [])
        names = [_plain(cell) for cell in cells]
        if set(names) & _NAMES:
            header = names
        elif header and len(cells) == len(header):  # a row cut short at the end is left out
            yield dict(zip(header, cells, strict=True))


def _instant(text: str) -> float | None:
    """Seconds of a timestamp; None for what is none."""
    for form in _TIMES:
        try:
            return datetime.strptime(text.strip(), form).timestamp()
        except (ValueError, OverflowError, OSError):
            continue
    return None


class _Log:
    """Columns that grow turn by turn; a GPU that says nothing in a turn is not known (NaN) there."""

    def __init__(self) -> None:
        self.turns: array[float] = array("d")
        self.facts: dict[str, dict[str, object]] = {}
        self._row = 0
        """Of the present turn."""
        self._places: dict[str, int] = {}
        self._values: dict[str, array[float]] = {}

    def add(self, row: Row) -> None:
        """One row of the log, if it has a time. Raises `RefusedFile` beyond the budget."""
        at = _instant(row.get(_TIMESTAMP, ""))
        if at is None:
            return
        self._row += 1
        if not self.turns or abs(at - self.turns[-1]) > _TICK:
            self.turns.append(at)
            self._row = 0
        gpu = next((row[name].strip()[:200] for name in _IDENTITIES if name in row), str(self._row))
        place = self._places.setdefault(gpu, len(self._places))
        if place >= GPUS.most:
            raise RefusedFile(say("it names {beyond}", beyond=GPUS.beyond))
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
                raise RefusedFile(say("it has {words}", words=SMI_CELLS.words))
        values[-1] = value

    def columns(self) -> dict[str, "array[float] | array[int]"]:
        """The table's columns; times count from the first turn."""
        turns = len(self.turns)
        for values in self._values.values():
            values.extend([math.nan] * (turns - len(values)))
        return {"t": array("d", (at - self.turns[0] for at in self.turns)), **self._values}


def _facts(row: Row) -> dict[str, object]:
    total, limit = _number(row.get("memory.total", "")), _number(row.get("power.limit", ""))
    told = {ours: _number(row.get(theirs, "")) for theirs, ours in _LIMITS.items()}
    return {
        **{ours: int(value) for ours, value in told.items() if not math.isnan(value)},
        "name": (row.get("name") or row.get("gpu_name") or "").strip(),
        "bytes": None if math.isnan(total) else int(total * _MIB),
        "power_limit": None if math.isnan(limit) else limit,
    }
