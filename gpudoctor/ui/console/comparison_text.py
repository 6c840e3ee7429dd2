"""Two runs side by side, for a terminal."""

from gpudoctor.model.comparison import Comparison
from gpudoctor.report.comparison import groups, remarks
from gpudoctor.report.printable import one_line
from gpudoctor.ui.console.canvas import Canvas

_NUMBER = 12


def render_comparison(item: Comparison, *, width: int, colour: bool) -> str:
    """The verdict, then speed, phases and memory in columns."""
    canvas = Canvas(width, colour)
    canvas.joined(["gpudoctor", "before and after"])
    canvas.blank()
    canvas.paragraph(item.verdict)
    every = groups(item)
    label = max([16, *(len(row[0]) for _, rows in every for row in rows)])
    for title, rows in every:
        canvas.blank()
        canvas.literal_raw(f"{title:<{label + 2}}{'before':>{_NUMBER}}{'after':>{_NUMBER}}")
        for name, before, after, change in rows:
            line = f"{name:<{label}}{before:>{_NUMBER}}{after:>{_NUMBER}}{change:>9}"
            canvas.literal_raw(line, indent=2)
    canvas.blank()
    for sentence in remarks(item):
        canvas.paragraph(sentence)
    canvas.literal(f"before: {one_line(item.before.recording)}")
    canvas.literal(f"after:  {one_line(item.after.recording)}")
    return canvas.text()
