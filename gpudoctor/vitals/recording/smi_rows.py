"""Rows of a log of nvidia-smi, whichever of its outputs it is: named cells as `--query-gpu` names them.

- `--format=csv`, with and without header and timestamps, in UTF-8 or UTF-16 (a Windows shell's `>`);
- `-q`, the listing of one GPU after another, once or again and again (`-l`);
- the table that nvidia-smi prints without any option, once or again and again.
"""

import csv
import re
from collections.abc import Iterator
from datetime import datetime

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
_LISTING = "NVSMI LOG"
_TABLE = re.compile(r"\|\s*NVIDIA-SMI\s")
_UNIT = re.compile(r"\s*(?:\d+(?:\.\d+)?|\[?N/A\]?)\s(%|W|MiB)\s*")
_BY_UNIT = {
    "%": ("utilization.gpu", "utilization.memory"),
    "W": ("power.draw", "power.limit"),
    "MiB": ("memory.used",),
}
"""What cells without a header are, by their unit, when there are no more of it."""


def plain(name: str) -> str:
    """A column's name without its unit: `utilization.gpu [%]`."""
    return name.partition("[")[0].strip().strip("\ufeff").lower()


def form_of(head: str) -> str | None:
    """Which output the first lines of a file are: `header`, `bare`, `listing`, `table`; None for no log."""
    for line in head.splitlines()[:12]:
        if _LISTING in line:
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
    """The rows of an output."""
    if form == "listing":
        return _listed(lines)
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
            names.append(f"unnamed {place}")
    return names if any(name in _NAMES for name in names) else []


_LISTED = {
    "FB Memory Usage/Total": "memory.total", "FB Memory Usage/Used": "memory.used",
    "Utilization/Gpu": "utilization.gpu", "Utilization/GPU": "utilization.gpu",
    "Temperature/GPU Current Temp": "temperature.gpu", "Temperature/Gpu": "temperature.gpu",
    "Temperature/Memory Current Temp": "temperature.memory",
    "Temperature/GPU T.Limit Temp": "temperature.gpu.tlimit", "Clocks/SM": "clocks.sm",
    "Power Readings/Power Draw": "power.draw", "Power Readings/Power Limit": "power.limit",
    "GPU Power Readings/Power Draw": "power.draw",
    "GPU Power Readings/Instantaneous Power Draw": "power.draw",
    "GPU Power Readings/Average Power Draw": "power.draw.average",
    "GPU Power Readings/Current Power Limit": "power.limit",
    "PCIe Generation/Current": "pcie.link.gen.current", "PCIe Generation/Max": "pcie.link.gen.max",
    "Link Width/Current": "pcie.link.width.current", "Link Width/Max": "pcie.link.width.max",
    "/Product Name": "name",
}  # fmt: skip
"""Lines of `-q` by their section, and the column that says the same."""
_REASONS = {
    "idle": 0x1, "applications clocks setting": 0x2, "sw power cap": 0x4, "hw slowdown": 0x8,
    "sync boost": 0x10, "sw thermal slowdown": 0x20, "hw thermal slowdown": 0x40,
    "hw power brake slowdown": 0x80, "display clock setting": 0x100,
}  # fmt: skip
"""NVML's bits of what `-q` lists under the reasons for lower clocks."""
_GPU = re.compile(r"GPU ([0-9A-Fa-f]{4,8}:[0-9A-Fa-f:.]+)\s*$")


def _listed(lines: Iterator[str]) -> Iterator[Row]:
    at, row = "", dict[str, str]()
    sections: list[tuple[int, str]] = []
    for line in lines:
        key, colon, value = (part.strip() for part in line.partition(" : "))
        gpu = _GPU.match(line)
        if gpu or _LISTING in line:
            if len(row) > 2:
                yield row
            row = {TIMESTAMP: at, "pci.bus_id": gpu[1]} if gpu else {}
            sections = []
        elif key == "Timestamp":
            at = value
        elif row and key:
            depth = len(line) - len(line.lstrip())
            sections = [section for section in sections if section[0] < depth]
            if not colon:
                sections.append((depth, key))
            else:
                _take_listed(row, sections[-1][1] if sections else "", key, value)
    if len(row) > 2:
        yield row


def _take_listed(row: Row, section: str, key: str, value: str) -> None:
    name = _LISTED.get(f"{section}/{key}")
    if name is not None:
        row.setdefault(name, value)
    elif "reasons" in section.lower() or section == "HW Slowdown":
        bit = _REASONS.get(key.lower(), 0) if value == "Active" else 0
        column = "clocks_event_reasons.active"
        row[column] = hex(int(row.get(column, "0x0"), 16) | bit)


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
