"""Logs of `nvidia-smi --query-gpu=timestamp,... --format=csv -l 1` as recordings: a machine without steps."""

import csv
import math
import re
from array import array
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path

from gpudoctor.errors import UsageError
from gpudoctor.model.signs.recording import Recording, Table

_TIMES = ("%Y/%m/%d %H:%M:%S.%f", "%Y/%m/%d %H:%M:%S", "%Y-%m-%d %H:%M:%S.%f", "%Y-%m-%d %H:%M:%S")
_IDENTITIES = ("index", "gpu_uuid", "uuid", "pci.bus_id", "gpu_bus_id", "pci.bus", "serial", "gpu_serial")
_MIB = 1 << 20
_TICK = 0.5
"""Seconds within which rows belong to one turn of the loop, where no column tells the GPUs apart."""


def _number(text: str) -> float:
    """The number at the beginning of `35 %`, `1024 MiB`, `71.3 W`; NaN for `[N/A]`."""
    match = re.match(r"\s*(-?\d+(?:\.\d+)?)", text)
    return float(match[1]) if match else math.nan


def _mask(text: str) -> float:
    try:
        return float(int(text.strip(), 16))
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
        with path.open("rb") as stream:
            head = stream.readline(4096).decode("utf-8", "replace")
    except OSError:
        return False
    names = {_plain(name) for name in head.split(",")}
    return "timestamp" in names and bool(names & {*_COLUMNS, "memory.total", "name", "gpu_name"})


def read_smi_log(name: str) -> Recording:
    """The log as a recording of the machine. Raises `UsageError` for one that holds no readings."""
    try:
        with open(name, encoding="utf-8", errors="replace", newline="") as stream:
            rows = list(_rows(stream))
    except OSError as error:
        raise UsageError(f"{name}: cannot be read: {error.strerror or error}") from error
    if not rows:
        raise UsageError(
            f"{name}: holds no readings; write it with --format=csv, header and timestamp included"
        )
    samples = list(_samples(rows))
    gpus = list(dict.fromkeys(gpu for _, gpu, _ in samples))
    begun = samples[0][0]
    turns: dict[float, dict[str, float]] = {}
    facts: dict[str, dict[str, object]] = {}
    turn = begun
    for at, gpu, row in samples:
        turn = at if at - turn > _TICK else turn
        place = gpus.index(gpu)
        values = {
            f"gpu{place}_{ours}": read(row[theirs])
            for theirs, (ours, read) in _COLUMNS.items()
            if theirs in row
        }
        turns.setdefault(turn, {}).update(values)
        facts.setdefault(gpu, _facts(row))
    names = dict.fromkeys(column for values in turns.values() for column in values)
    columns: dict[str, array[float] | array[int]] = {"t": array("d", (at - begun for at in turns))}
    columns |= {
        column: array("d", (values.get(column, math.nan) for values in turns.values())) for column in names
    }
    return Recording(
        path=name,
        command=(),
        cwd="",
        started=datetime.fromtimestamp(begun).astimezone().isoformat(),
        machine=Table(columns=columns),
        machine_facts={"gpus": [facts[gpu] for gpu in gpus]},
        origin="nvidia-smi",
    )


def _plain(name: str) -> str:
    """A column's name without its unit: `utilization.gpu [%]`."""
    return name.partition("[")[0].strip().strip("\ufeff").lower()


def _rows(lines: Iterator[str]) -> Iterator[dict[str, str]]:
    """Rows by column; a header that stands again (a log that was appended to) begins anew."""
    header: list[str] = []
    for cells in csv.reader(lines, skipinitialspace=True):
        plain = [_plain(cell) for cell in cells]
        if "timestamp" in plain:
            header = plain
        elif header and len(cells) == len(header):  # a row cut short at the end is left out
            yield dict(zip(header, cells, strict=True))


def _samples(rows: list[dict[str, str]]) -> Iterator[tuple[float, str, dict[str, str]]]:
    """Time, GPU and row."""
    identity = next((name for name in _IDENTITIES if name in rows[0]), None)
    turn, place = -math.inf, 0
    for row in rows:
        at = _instant(row["timestamp"])
        if at is None:
            continue
        if identity is not None:
            yield at, row[identity].strip(), row
            continue
        turn, place = (at, 0) if at - turn > _TICK else (turn, place + 1)
        yield at, str(place), row


def _instant(text: str) -> float | None:
    for form in _TIMES:
        try:
            return datetime.strptime(text.strip(), form).timestamp()
        except ValueError:
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
