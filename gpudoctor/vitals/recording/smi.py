"""Logs of `nvidia-smi` as recordings: a machine without steps.

Best are those of `--query-gpu=timestamp,... --format=csv -l 1`. Its other outputs are read as far as they go.
"""

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
from gpudoctor.vitals.recording.smi_rows import TIMESTAMP, Row, form_of, instant, row_of, rows_of
from gpudoctor.vitals.smi_query.blocks import blocks_of
from gpudoctor.vitals.smi_query.survey import Turns

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
_LIMITS = {"index": "index", "pcie.link.width.max": "pcie_width_max", "pcie.link.gen.max": "pcie_generation_max"}
"""What does not change, and its fact."""


def is_smi_log(path: Path) -> bool:
    """Whether a file begins as an output of nvidia-smi does."""
    return _form(path) is not None


def _form(path: Path) -> str | None:
    try:
        return form_of(text_of(read_head(path, 8192)))
    except OSError:
        return None


def read_smi_log(name: str) -> Recording:
    """The log as a recording of the machine, with the survey of its last turn where it is a `-q`.

    Raises `UsageError` for one that holds no readings.
    """
    log = _Log()
    clock = _Clock()
    turns = Turns()
    form = _form(Path(name)) or "header"
    damage = ""
    try:
        with open_file(name) as stream:
            if os.fstat(stream.fileno()).st_size > SMI_LOG.most:
                raise RefusedFile(say("it is {words}", words=SMI_LOG.words))
            for at, gpu, row in clock.samples(_rows(form, lines_of(stream, SMI_LINE), turns)):
                log.add(at, gpu, row)
    except OSError as error:
        damage = error.strerror or str(error)
        if not len(turns):
            raise UsageError(say("{name}: cannot be read: {damage}", name=name, damage=damage)) from error
    if not log.turns and not len(turns):
        raise UsageError(say("{name}: has no readings; {best}", name=name, best=_BEST))
    wrong: Counter[str] = Counter()
    table = sound("machine", Table(columns=log.columns()), wrong)
    problems = [say("{name}: {left_out}", name=name, left_out=left_out(wrong))] if wrong else []
    problems += [say("{name}: {damage}; gpudoctor read what precedes it", name=name, damage=damage)] if damage else []
    problems += [say("{name}: {sentence}", name=name, sentence=sentence) for sentence in turns.lacking()]
    if len(table) > 1 or not len(turns):
        problems += [
            say("{name}: {sentence}; {best}", name=name, sentence=sentence, best=_BEST) for sentence in _lacking(clock)
        ]
    return Recording(
        path=name,
        command=(),
        cwd="",
        started=datetime.fromtimestamp(log.turns[0]).astimezone().isoformat() if clock.told and log.turns else "",
        machine=table,
        machine_facts={"gpus": list(log.facts.values())},
        survey=replace(turns.survey(name), problems=tuple(problems)) if len(turns) else None,
        origin="nvidia-smi",
        problems=tuple(problems),
    )


def _rows(form: str, lines: Iterator[str], turns: Turns) -> Iterator[Row]:
    """The rows of any output; what a `-q` says beyond goes to the turns."""
    if form != "listing":
        yield from rows_of(lines)
        return
    for block in blocks_of(lines):
        turns.add(block)
        if len(turns) > GPUS.most:
            raise RefusedFile(say("it names {beyond}", beyond=GPUS.beyond))
        if row := row_of(block):
            yield row


_BEST = say("write it with `nvidia-smi --query-gpu=timestamp,index,name,utilization.gpu,... --format=csv -l 1`")


def _lacking(clock: "_Clock") -> Iterator[str]:
    """What a log lacks, a sentence each."""
    if not clock.told:
        yield say("it has no timestamps, so gpudoctor assumes one row per second")


class _Clock:
    """Times of rows: their own, or a second for each turn of a log that tells none."""

    def __init__(self) -> None:
        self.told = True
        self._turn, self._place = -math.inf, 0
        self._seen: set[str] = set()

    def samples(self, rows: Iterator[Row]) -> Iterator[tuple[float, str, Row]]:
        """Time, GPU and row."""
        for row in rows:
            text = row.get(TIMESTAMP)
            self.told = bool(text)
            at = instant(text) if text else None
            if text and at is None:
                continue
            identity = next((name for name in _IDENTITIES if name in row), None)
            gpu = row[identity].strip()[:200] if identity is not None else None
            if at is None:
                yield self._next(gpu), gpu or "0", row
            elif gpu is not None:
                yield at, gpu, row
            else:
                new = at - self._turn > _TICK
                self._turn, self._place = (at, 0) if new else (self._turn, self._place + 1)
                yield at, str(self._place), row

    def _next(self, gpu: str | None) -> float:
        """The next second, when a GPU speaks again; each row is a turn of a log that tells no GPUs apart."""
        if gpu is None or gpu in self._seen or math.isinf(self._turn):
            self._turn = 0.0 if math.isinf(self._turn) else self._turn + 1.0
            self._seen.clear()
        self._seen.add(gpu or "")
        return self._turn


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


def _facts(row: dict[str, str]) -> dict[str, object]:
    total, limit = _number(row.get("memory.total", "")), _number(row.get("power.limit", ""))
    told = {ours: _number(row.get(theirs, "")) for theirs, ours in _LIMITS.items()}
    return {
        **{ours: int(value) for ours, value in told.items() if not math.isnan(value)},
        "name": (row.get("name") or row.get("gpu_name") or "").strip(),
        "bytes": None if math.isnan(total) else int(total * _MIB),
        "power_limit": None if math.isnan(limit) else limit,
    }
