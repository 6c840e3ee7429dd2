"""A watch without a screen: one line a tick, for logs of 80 columns; the list of `watch --find`."""

import math
import time
from collections.abc import Sequence

from gpudoctor.lang import rendered, tr, word
from gpudoctor.model.signs.process import GpuWindow, ProcessWindow
from gpudoctor.model.watch import FoundJob, Tick
from gpudoctor.report.printable import one_line, printable
from gpudoctor.text import duration
from gpudoctor.ui.console.canvas import Canvas
from gpudoctor.ui.watch.marks import View, shown_gpus

# The list of `watch --find`.


def render_jobs(jobs: Sequence[FoundJob], *, width: int, colour: bool) -> str:
    """A table, the command last and cut where it does not fit."""
    canvas = Canvas(width, colour)
    if not jobs:
        canvas.paragraph(tr("No process that you may read has loaded torch; those of other users need sudo."))
        return canvas.text()
    rows = [("PID", "RANKS", "GPU", "USER", "TIME", "COMMAND")]
    rows += [
        (str(job.pid), str(len(job.ranks)), _gpus(job.gpus), job.user, duration(float(round(job.seconds))), job.command)
        for job in jobs
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(5)]
    for row in rows:
        cells = [cell.ljust(size) for cell, size in zip(row[:5], widths, strict=True)]
        canvas.clipped("  ".join([*cells, row[5]]))
    canvas.blank()
    canvas.literal(tr("watch one: gpudoctor watch {pid}", pid=jobs[0].pid))
    return canvas.text()


def _gpus(indices: tuple[int, ...] | None) -> str:
    if indices is None:
        return "?"
    return ",".join(str(index) for index in indices) or "-"


# A watch without a screen: one line a tick, for logs of 80 columns and for ssh without a terminal.

_PHASES = 4
_GIB = 1 << 30


def plain_line(tick: Tick, before: str = "") -> str:
    """One tick; the verdict is added when it differs from the one `before`."""
    window = tick.window
    parts = [time.strftime("%H:%M:%S", time.localtime(window.wall)), phases_text(window)]
    parts += [gpu_text(gpu) for gpu in shown_gpus(window, View())[:4]]
    cpu = sum(rank.cpu for rank in window.ranks if rank.cpu == rank.cpu)
    rss = sum(rank.tree_rss.last for rank in window.ranks if rank.tree_rss.values)
    parts.append(tr("cpu {cpu:.1f}  rss {rss:.1f} GiB", cpu=cpu, rss=rss / _GIB))
    line = printable("  ".join(one_line(part) for part in parts if part))
    verdict = one_line(printable(rendered(tick.report.summary.verdict)))
    return line if verdict == before else f"{line}\n  {verdict}"


def phases_text(window: ProcessWindow) -> str:
    """`data wait 58 %, forward 19 %`."""
    if window.ended:
        return rendered(window.ended)
    total = window.samples
    if not total:
        return tr("no stack sample")
    shares = [(name, count / total) for name, count in window.phases.items()]
    return ", ".join(f"{word(name.replace('_', ' '))} {share:.0%}" for name, share in shares[:_PHASES])


def gpu_text(gpu: GpuWindow) -> str:
    """`GPU 0 31 % 212 W 40.1 GiB`."""
    if gpu.lost:
        return tr("GPU {index} lost", index=gpu.index)
    parts = [f"GPU {gpu.index}"]
    for series, text in ((gpu.activity, "{:.0%}"), (gpu.power, "{:.0f} W")):
        if not math.isnan(series.last):
            parts.append(text.format(series.last))
    if not math.isnan(gpu.memory.last):
        parts.append(f"{gpu.memory.last / _GIB:.1f} GiB")
    return " ".join(parts)
