"""Rows of a log of nvidia-smi, whichever of its outputs it is: named cells as `--query-gpu` names them.

- `--format=csv` with its header, with and without timestamps, in UTF-8 or UTF-16 (a Windows shell's `>`);
- `-q`, the listing of one GPU after another, once or again and again (`-l`).
"""

import csv
import re
from collections.abc import Iterator
from datetime import datetime

from gpudoctor.vitals.smi_query.blocks import LISTING, GpuBlock
from gpudoctor.vitals.smi_query.fields import PATHS
from gpudoctor.vitals.smi_query.survey import reasons

Row = dict[str, str]

TIMESTAMP = "timestamp"
_TIMES = ("%Y/%m/%d %H:%M:%S.%f", "%Y/%m/%d %H:%M:%S", "%Y-%m-%d %H:%M:%S.%f", "%Y-%m-%d %H:%M:%S",
          "%a %b %d %H:%M:%S %Y")  # fmt: skip
_ZONE = re.compile(r" [A-Z]{2,5}(?= \d{4}$)")
"""`Mon Feb  9 00:38:34 CST 2026`."""
_NAMES = frozenset(
    {"name", "gpu_name", "memory.total", "memory.used", "utilization.gpu", "power.draw", "temperature.gpu"}
)
"""Columns of which a header has at least one."""


def plain(name: str) -> str:
    """A column's name without its unit: `utilization.gpu [%]`."""
    return name.partition("[")[0].strip().strip("\ufeff").lower()


def form_of(head: str) -> str | None:
    """Which output a file begins with: `header`, `listing`; None for no log."""
    for line in head.splitlines()[:12]:
        if LISTING in line:
            return "listing"
    first = next((line for line in head.splitlines() if line.strip()), "")
    names = {plain(cell) for cell in first.split(",")}
    if names & _NAMES and (TIMESTAMP in names or "[" in first or len(names & _NAMES) > 1):
        return "header"
    return None


def instant(text: str) -> float | None:
    """Seconds of a timestamp; None for what is none."""
    text = _ZONE.sub("", " ".join(text.split()))
    for form in _TIMES:
        try:
            return datetime.strptime(text, form).timestamp()
        except (ValueError, OverflowError, OSError):
            continue
    return None


def rows_of(lines: Iterator[str]) -> Iterator[Row]:
    """Rows by column; a header that stands again (a log that was appended to) begins anew.

    A quote that is not closed ends with its line: values of nvidia-smi have no newlines.
    """
    header: list[str] = []
    for line in lines:
        cells = next(csv.reader([line], skipinitialspace=True), [])
        names = [plain(cell) for cell in cells]
        if set(names) & _NAMES:
            header = names
        elif header and len(cells) == len(header):  # a row cut short at the end is left out
            yield dict(zip(header, cells, strict=True))


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
