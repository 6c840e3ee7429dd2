"""Rows of a log of nvidia-smi, whichever of its outputs it is: named cells as `--query-gpu` names them.

- `--format=csv`, with and without header and timestamps, in UTF-8 or UTF-16 (a Windows shell's `>`);
- `-q`, the listing of one GPU after another, once or again and again (`-l`);
- the table that nvidia-smi prints without any option, once or again and again.
"""

import csv
import re
from collections.abc import Iterator
from datetime import datetime

from gpudoctor.lang import say
from gpudoctor.vitals.smi_query.blocks import LISTING, GpuBlock
from gpudoctor.vitals.smi_query.fields import PATHS
from gpudoctor.vitals.smi_query.survey import reasons

Row = dict[str, str]

TIMESTAMP, INDEX = "timestamp", "index"
_TIMES = ("%Y/%m/%d %H:%M:%S.%f", "%Y/%m/%d %H:%M:%S", "%Y-%m-%d %H:%M:%S.%f", "%Y-%m-%d %H:%M:%S",
          "%a %b %d %H:%M:%S %Y")  # fmt: skip
_ZONE = re.compile(r" [A-Z]{2,5}(?= \d{4}$)")
"""`Mon Feb  9 00:38:34 CST 2026`."""
_NAMES = frozenset(
    {"name", "gpu_name", "memory.total", "memory.used", "utilization.gpu", "power.draw", "temperature.gpu"}
)
"""Columns of which a header has at least one."""
_TABLE = re.compile(r"\|\s*NVIDIA-SMI\s")
_UNIT = re.compile(r"\s*(?:\d+(?:\.\d+)?|\[?N/A\]?)\s(%|W|MiB)\s*")
_BY_UNIT = {"%": ("utilization.gpu", "utilization.memory"), "W": ("power.draw", "power.limit"), "MiB": ("memory.used",)}
"""What cells without a header are, by their unit, when there are no more of it."""


def plain(name: str) -> str:
    """A column's name without its unit: `utilization.gpu [%]`."""
    return name.partition("[")[0].strip().strip("\ufeff").lower()


def form_of(head: str) -> str | None:
    """Which output a file begins with: `header`, `bare`, `listing`, `table`; None for no log."""
    for line in head.splitlines()[:12]:
        if LISTING in line:
            return "listing"
        if _TABLE.match(line):
            return "table"
    first = next((line for line in head.splitlines() if line.strip()), "")
    names = {plain(cell) for cell in first.split(",")}
    if names & _NAMES and (TIMESTAMP in names or "[" in first or len(names & _NAMES) > 1):
        return "header"
    cells = next(csv.reader([first], skipinitialspace=True), [])
    return "bare" if len(cells) > 1 and _unnamed(cells) else None


def rows_of(form: str, lines: Iterator[str]) -> Iterator[Row]:
    """The rows of an output that is no `-q`."""
    if form == "table":
        return _tabled(lines)
    return _separated(lines)


def instant(text: str) -> float | None:
    """Seconds of a timestamp; None for what is none."""
    text = _ZONE.sub("", " ".join(text.split()))
    for form in _TIMES:
        try:
            return datetime.strptime(text, form).timestamp()
        except (ValueError, OverflowError, OSError):
            continue
    return None


def _separated(lines: Iterator[str]) -> Iterator[Row]:
    """Rows by column; a header that stands again (a log that was appended to) begins anew.

    A quote that is not closed ends with its line: values of nvidia-smi have no newlines.
    """
    header: list[str] = []
    for line in lines:
        cells = next(csv.reader([line], skipinitialspace=True), [])
        names = [plain(cell) for cell in cells]
        if set(names) & _NAMES and not _unnamed(cells):
            header = names
        elif not header:
            header = _unnamed(cells)
            if header:
                yield dict(zip(header, cells, strict=True))
        elif len(cells) == len(header):  # a row cut short at the end is left out
            yield dict(zip(header, cells, strict=True))


def _unnamed(cells: list[str]) -> list[str]:
    """Names of cells without a header, by what they look like; empty where they are no readings."""
    units = [match[1] if (match := _UNIT.fullmatch(cell)) else "" for cell in cells]
    names: list[str] = []
    for place, (cell, unit) in enumerate(zip(cells, units, strict=True)):
        known = _BY_UNIT.get(unit, ())
        if place == 0 and instant(cell) is not None:
            names.append(TIMESTAMP)
        elif unit and units.count(unit) <= len(known):
            names.append(known[units[:place].count(unit)])
        elif re.search(r"GPU-[0-9a-f]{8}", cell):
            names.append("uuid")
        else:
            names.append(say("unnamed {place}", place=place))
    return names if any(name in _NAMES for name in names) else []


_COLUMNS = {
    "name": "name", "memory.total": "memory_total", "memory.used": "memory_used",
    "utilization.gpu": "utilization", "temperature.gpu": "temperature",
    "temperature.memory": "temperature_memory", "temperature.gpu.tlimit": "temperature_margin",
    "clocks.sm": "clock_sm", "power.draw": "power", "power.limit": "power_limit",
    "pcie.link.gen.current": "pcie_generation", "pcie.link.gen.max": "pcie_generation_max",
    "pcie.link.width.current": "pcie_width", "pcie.link.width.max": "pcie_width_max",
}  # fmt: skip
"""Columns, and the reading of `-q` that says the same."""


def row_of(block: GpuBlock) -> Row:
    """What one turn of `-q` says of a GPU; empty where it says nothing of what changes."""
    said = {column: block.gpu.text(*PATHS[name]) for column, name in _COLUMNS.items()}
    row = {column: text for column, text in said.items() if text is not None}
    bits = reasons(block.gpu)
    if isinstance(bits, int):
        row["clocks_event_reasons.active"] = hex(bits)
    if not row:
        return {}
    return {TIMESTAMP: block.head.text("timestamp") or "", "pci.bus_id": block.address, **row}


_TABLE_GPU = re.compile(
    r"\|\s{1,40}(\d{1,4})\s{1,40}(\S[^|]{0,80}?)\s{2,40}(?:\S{1,40}\s{1,40})?\|\s{0,40}([0-9A-Fa-f]{4,8}:[0-9A-Fa-f:.]{1,40})"
)
_TABLE_READINGS = re.compile(
    r"\|\s{0,40}(?:[^\s|]{1,12}\s{1,40})?(?P<temperature>\d{1,4})C\s{1,40}[^\s|]{1,12}\s{1,40}"
    r"(?P<power>[^\s|/]{1,12}|N/A)\s{0,40}/\s{0,40}(?P<limit>[^\s|]{1,12})\s{0,40}\|"
    r"\s{0,40}(?P<used>\d{1,9})MiB\s{0,40}/\s{0,40}(?P<total>\d{1,9})MiB\s{0,40}\|\s{0,40}(?P<util>[^\s|]{1,12})"
)


def _tabled(lines: Iterator[str]) -> Iterator[Row]:
    at, gpu = "", dict[str, str]()
    for line in lines:
        if not line.startswith(("|", "+")):
            at = line.strip() if instant(line) is not None else at
        elif found := _TABLE_GPU.match(line):
            gpu = {TIMESTAMP: at, INDEX: found[1], "name": found[2]}
        elif gpu and (read := _TABLE_READINGS.match(line)):
            yield gpu | {
                "temperature.gpu": read["temperature"], "power.draw": read["power"],
                "power.limit": read["limit"],
                "memory.used": read["used"], "memory.total": read["total"], "utilization.gpu": read["util"],
            }  # fmt: skip
            gpu = {}
