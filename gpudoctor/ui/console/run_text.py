"""Runs in text: the parts of a text report on a run, a log, a synthetic job; two runs side by side."""

from gpudoctor.lang import rendered, tr, word
from gpudoctor.lang.wrapping import cells, padded
from gpudoctor.model import Report
from gpudoctor.model.comparison import Comparison
from gpudoctor.model.log_message import LogSummary
from gpudoctor.model.run import RunSummary, SyntheticSummary
from gpudoctor.model.signs.preflight import Preflight
from gpudoctor.report.palette import phase_colour
from gpudoctor.report.printable import one_line
from gpudoctor.report.run_words import (
    job_words,
    memory_heading,
    memory_rows,
    moment_rows,
    phase_rows,
    run_numbers,
    small_print,
    speed_words,
)
from gpudoctor.text import percent
from gpudoctor.ui.console.canvas import Canvas
from gpudoctor.ui.console.trial_text import trial_ending, trial_table
from gpudoctor.ui.watch.marks import bar


def before_findings(canvas: Canvas, shown: Report, verbose: bool, bars: bool) -> None:
    """What was made, where its time went, and what was tried."""
    if shown.synthetic:
        synthetic_part(canvas, shown.synthetic, verbose)
    if shown.run and bars:
        phase_bars(canvas, shown.run)
    if shown.run and (verbose or (shown.run.gpus and not shown.run.steps)):
        run_details(canvas, shown.run)
    if shown.trial:
        trial_table(canvas, shown.trial, verbose)


def after_findings(canvas: Canvas, shown: Report) -> None:
    """What became of it: the patch, the files."""
    if shown.trial:
        trial_ending(canvas, shown.trial)
    if shown.synthetic:
        script = one_line(shown.synthetic.script)
        canvas.literal(tr("program: {script} (it needs nothing of gpudoctor)", script=script))
    if shown.run:
        place = one_line(shown.run.recording)  # to look at it again
        live = tr("live view: gpudoctor watch {recording}", recording=place)
        canvas.literal(live if shown.run.origin == "watch" else tr("recording: {recording}", recording=place))


# The time line of a log in text, for `--verbose`.


def log_part(canvas: Canvas, log: LogSummary) -> None:
    """Every message in its order, with its role and place."""
    if not log.moments:
        return
    canvas.blank()
    canvas.paragraph(tr("time line of the log:"))
    for role, place, text in moment_rows(log):
        canvas.paragraph(padded(role, 12) + tr(" {place}: {text}", place=place, text=text), indent=2, hang=13)


# What an active examination measured: a row for each quantity, then what was not tested.

_UNTESTED = 3


def preflight_part(canvas: Canvas, found: Preflight, verbose: bool) -> None:
    """Slowest (and who), median and fastest of each quantity."""
    from gpudoctor.report.preflight_words import figure_rows, untested

    rows = figure_rows(found)
    if rows:
        canvas.blank()
        several = any(row.measured > 1 for row in rows)
        head: tuple[str, ...] = ("", *map(word, ("slowest", "median", "fastest") if several else ("measured",)))
        table = [head, *((row.title, one_line(row.worst), row.middle, row.best)[: len(head)] for row in rows)]
        while (
            len(head) > 2
            and sum(2 + max(cells(row[place]) for row in table) for place in range(len(table[0]))) > canvas.width
        ):  # the least telling column goes first
            table = [row[:-1] for row in table]
            head = table[0]
        widths = [max(cells(row[place]) for row in table) for place in range(len(head))]
        for row in table:
            aligned = "  ".join(padded(cell, wide) for cell, wide in zip(row, widths, strict=True))
            canvas.literal_raw(aligned, indent=2)
    said = untested(found)
    if said:
        canvas.blank()
    for text in said if verbose else said[:_UNTESTED]:
        canvas.paragraph(tr("not tested: {text}", text=text), hang=2)
    if len(said) > _UNTESTED and not verbose:
        canvas.paragraph(tr("and {said} more: --verbose", said=len(said) - _UNTESTED))


# The part of a text report that shows a synthetic job: memory beside its estimate, speed, the program.

_FEW = 2
"""Sentences of the small print that are shown unless asked for all."""


def synthetic_part(canvas: Canvas, job: SyntheticSummary, verbose: bool) -> None:
    """The job, its memory and its speed."""
    canvas.blank()
    canvas.paragraph(job_words(job), hang=2)
    rows = memory_rows(job)
    if rows:
        canvas.blank()
        table = [(one_line(memory_heading(job)), word("estimated"), word("measured"), ""), *rows]
        widths = [max(cells(row[column]) for row in table) for column in range(4)]
        if sum(widths) + 6 > canvas.width:  # the heading on a line of its own
            canvas.paragraph(table[0][0])
            table[0] = ("", *table[0][1:])
            widths[0] = max(cells(row[0]) for row in table) + 2
        for place, row in enumerate(table):
            indent = "  " if place else ""
            name = f"{indent}{one_line(row[0])}"
            numbers = (padded(cell, wide, right=True) for cell, wide in zip(row[1:], widths[1:], strict=True))
            canvas.literal_raw("  ".join((padded(name, widths[0] + 2), *numbers)))
    if speed := speed_words(job):
        canvas.blank()
        canvas.paragraph(tr("speed: {speed}", speed=speed), hang=2)
    said = small_print(job)
    for text in said if verbose else said[:_FEW]:
        canvas.paragraph(text, hang=2)
    if len(said) > _FEW and not verbose:
        canvas.paragraph(tr("and {said} more remarks on these numbers: --verbose", said=len(said) - _FEW))


_LABEL, _NUMBERS = 11, 20
_LINES = 8


def phase_bars(canvas: Canvas, run: RunSummary) -> None:
    """A bar for each phase, the largest first, `other` last."""
    width = max(10, min(40, canvas.width - _LABEL - _NUMBERS - 6))
    for place, (name, share, each) in enumerate(phase_rows(run)):
        if place == 0:
            canvas.blank()
        drawn = bar(share, width)
        line = f"  {padded(word(name), _LABEL)} {drawn} {percent(share):>6}  {each:>9}"
        # the colour that reads on either background
        canvas.styled(line, [(drawn, phase_colour(name.replace(" ", "_")).dark)])
    if run.device_idle is not None and run.phases:
        busy = 1 - run.device_idle
        canvas.literal_raw(
            tr("device busy {bar} {busy:>6}   at least", bar=bar(busy, width), busy=percent(busy)), indent=2
        )


def run_details(canvas: Canvas, run: RunSummary) -> None:
    """Everything else that was measured, for `--verbose`."""
    canvas.blank()
    canvas.columns(run_numbers(run), indent=2)
    if run.lines:
        canvas.blank()
        canvas.paragraph(tr("Your lines with most of the training thread's time:"), indent=2)
        canvas.columns(
            [(percent(line.share), f"{line.path}:{line.line}", line.function) for line in run.lines[:_LINES]], indent=2
        )


# Two runs side by side, for a terminal.

_NUMBER = 12


def render_comparison(item: Comparison, *, width: int, colour: bool) -> str:
    """The verdict, then speed, phases and memory in columns."""
    from gpudoctor.report.comparison import groups, remarks

    canvas = Canvas(width, colour)
    canvas.joined(["gpudoctor", tr("before and after")])
    canvas.blank()
    canvas.paragraph(item.verdict)
    every = [(rendered(title), [(rendered(row[0]), *row[1:]) for row in rows]) for title, rows in groups(item)]
    label = max([16, *(cells(row[0]) for _, rows in every for row in rows)])
    for title, rows in every:
        canvas.blank()
        heads = (padded(word(name), _NUMBER, right=True) for name in ("before", "after"))
        canvas.literal_raw(padded(title, label + 2) + "".join(heads))
        for name, before, after, change in rows:
            line = f"{padded(name, label)}{before:>{_NUMBER}}{after:>{_NUMBER}}{change:>9}"
            canvas.literal_raw(line, indent=2)
    canvas.blank()
    for sentence in remarks(item):
        canvas.paragraph(sentence)
    canvas.literal(tr("before: {recording}", recording=one_line(item.before.recording)))
    canvas.literal(tr("after:  {recording}", recording=one_line(item.after.recording)))
    return canvas.text()
