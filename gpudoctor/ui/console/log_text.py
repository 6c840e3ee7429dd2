"""The time line of a log in text, for `--verbose`."""

from gpudoctor.model.log_message import LogSummary
from gpudoctor.report.log_words import moment_rows
from gpudoctor.ui.console.canvas import Canvas


def log_part(canvas: Canvas, log: LogSummary) -> None:
    """Every message in its order, with its role and place."""
    if not log.moments:
        return
    canvas.blank()
    canvas.paragraph("time line of the log:")
    for role, place, text in moment_rows(log):
        canvas.paragraph(f"{role:<12} {place}: {text}", indent=2, hang=13)
