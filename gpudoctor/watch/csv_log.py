"""Readings of the GPUs as comma-separated values, named and written as by nvidia-smi's `--query-gpu`."""

import time
from pathlib import Path
from typing import IO

from gpudoctor.errors import UsageError
from gpudoctor.model.signs.process import GpuWindow, Series
from gpudoctor.model.watch import Tick

COLUMNS = (
    "timestamp", "index", "name", "utilization.gpu [%]", "memory.used [MiB]", "memory.total [MiB]",
    "power.draw [W]", "temperature.gpu", "clocks.current.sm [MHz]", "clocks_event_reasons.active", "phase",
    "data_wait [%]",
)  # fmt: skip
"""Nvidia-smi's names, then ours."""
_MIB = 1 << 20


class CsvLog:
    """A row a GPU and tick; one row without a GPU where there is none. Raises `UsageError`."""

    def __init__(self, path: Path) -> None:
        try:
            self._file: IO[str] = path.open("x", encoding="utf-8")
        except FileExistsError:
            raise UsageError(f"--csv {path}: the file already exists; name another") from None
        except OSError as error:
            raise UsageError(f"--csv {path}: cannot be written: {error.strerror or error}") from error
        self._file.write(", ".join(COLUMNS) + "\n")

    def take(self, tick: Tick) -> None:
        """Write the rows of a tick."""
        window = tick.window
        stamp = (
            time.strftime("%Y/%m/%d %H:%M:%S", time.localtime(window.wall))
            + f".{int(window.wall % 1 * 1000):03d}"
        )
        phases = window.phases
        total = sum(phases.values())
        ours = [
            next(iter(phases), "[N/A]"),
            f"{100 * phases.get('data_wait', 0) / total:.0f} %" if total else "[N/A]",
        ]
        rows = [_cells(gpu) for gpu in window.gpus] or [["[N/A]"] * (len(COLUMNS) - 3)]
        for cells in rows:
            self._file.write(", ".join([stamp, *cells, *ours]) + "\n")
        self._file.flush()

    def close(self) -> None:
        """End the file."""
        self._file.close()


def _cells(gpu: GpuWindow) -> list[str]:
    mask = sum(bit for bit, share in gpu.reasons.items() if share > 0)
    return [
        str(gpu.index),
        gpu.name.replace(",", " "),
        _cell(gpu.busy, "{:.0f} %", 100.0),
        _cell(gpu.memory, "{:.0f} MiB", 1 / _MIB),
        f"{gpu.memory_total / _MIB:.0f} MiB" if gpu.memory_total else "[N/A]",
        _cell(gpu.power, "{:.2f} W"),
        _cell(gpu.temperature, "{:.0f}"),
        _cell(gpu.clock, "{:.0f} MHz"),
        f"0x{mask:016x}",
    ]


def _cell(series: Series, text: str, scale: float = 1.0) -> str:
    last = series.last
    return "[N/A]" if last != last else text.format(last * scale)
