"""The part of a text report that shows a synthetic job: memory beside its estimate, speed, the program."""

from gpudoctor.model.run import SyntheticSummary
from gpudoctor.report.printable import one_line
from gpudoctor.report.synthetic_words import job_words, memory_heading, memory_rows, small_print, speed_words
from gpudoctor.ui.console.canvas import Canvas

_FEW = 2
"""Sentences of the small print that are shown unless asked for all."""


def synthetic_part(canvas: Canvas, job: SyntheticSummary, verbose: bool) -> None:
    """The job, its memory and its speed."""
    canvas.blank()
    canvas.paragraph(job_words(job), hang=2)
    rows = memory_rows(job)
    if rows:
        canvas.blank()
        table = [(one_line(memory_heading(job)), "estimated", "measured", ""), *rows]
        widths = [max(len(row[column]) for row in table) for column in range(4)]
        if sum(widths) + 6 > canvas.width:  # the heading on a line of its own
            canvas.paragraph(table[0][0])
            table[0] = ("", *table[0][1:])
            widths[0] = max(len(row[0]) for row in table) + 2
        for place, row in enumerate(table):
            indent = "  " if place else ""
            name = f"{indent}{one_line(row[0])}"
            canvas.literal_raw(
                f"{name:<{widths[0] + 2}}  {row[1]:>{widths[1]}}  {row[2]:>{widths[2]}}  {row[3]:>{widths[3]}}"
            )
    if speed := speed_words(job):
        canvas.blank()
        canvas.paragraph(f"speed: {speed}", hang=2)
    said = small_print(job)
    for text in said if verbose else said[:_FEW]:
        canvas.paragraph(text, hang=2)
    if len(said) > _FEW and not verbose:
        canvas.paragraph(f"and {len(said) - _FEW} more remarks on these numbers: --verbose")


def synthetic_ending(canvas: Canvas, job: SyntheticSummary) -> None:
    """Where the program is."""
    canvas.literal(f"program: {one_line(job.script)} (it needs nothing of gpudoctor)")
