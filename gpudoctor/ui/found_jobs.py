"""The list of `watch --find`."""

from collections.abc import Sequence

from gpudoctor.model.watch import FoundJob
from gpudoctor.ui.console.canvas import Canvas


def render_jobs(jobs: Sequence[FoundJob], *, width: int, colour: bool) -> str:
    """A table, the command last and cut where it does not fit."""
    canvas = Canvas(width, colour)
    if not jobs:
        canvas.paragraph("No process on this machine has loaded torch.")
        return canvas.text()
    rows = [("PID", "RANKS", "GPU", "USER", "TIME", "COMMAND")]
    rows += [
        (str(job.pid), str(len(job.ranks)), _gpus(job.gpus), job.user, _clock(job.seconds), job.command)
        for job in jobs
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(5)]
    for row in rows:
        cells = [cell.ljust(size) for cell, size in zip(row[:5], widths, strict=True)]
        canvas.clipped("  ".join([*cells, row[5]]))
    canvas.blank()
    canvas.literal(f"watch one: gpudoctor watch {jobs[0].pid}")
    return canvas.text()


def _gpus(indices: tuple[int, ...] | None) -> str:
    if indices is None:
        return "?"
    return ",".join(str(index) for index in indices) or "-"


def _clock(seconds: float) -> str:
    minutes = int(seconds) // 60
    return f"{minutes // 60}h{minutes % 60:02d}m" if minutes >= 60 else f"{minutes}m{int(seconds) % 60:02d}s"
