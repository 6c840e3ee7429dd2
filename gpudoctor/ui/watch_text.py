"""The list of `watch --find`."""

from collections.abc import Sequence

from gpudoctor.lang import tr
from gpudoctor.model.watch import FoundJob
from gpudoctor.text import duration
from gpudoctor.ui.console.canvas import Canvas


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
    canvas.clipped_columns(rows)
    canvas.blank()
    canvas.literal(tr("watch one: gpudoctor watch {pid}", pid=jobs[0].pid))
    return canvas.text()


def _gpus(indices: tuple[int, ...] | None) -> str:
    if indices is None:
        return "?"
    return ",".join(str(index) for index in indices) or "-"
