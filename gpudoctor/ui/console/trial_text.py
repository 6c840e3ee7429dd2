"""The part of a text report that shows trials: a line a change, the patch, and what was left as it was."""

from gpudoctor.lang import say, template, tr
from gpudoctor.lang.wrapping import cells, padded
from gpudoctor.model.proof import TrialSummary
from gpudoctor.report.printable import one_line
from gpudoctor.report.trial_words import baseline_words, is_dull, replay_words, trial_rows
from gpudoctor.text import count
from gpudoctor.ui.console.canvas import Canvas

_KEPT_OUT = 4


def trial_table(canvas: Canvas, trial: TrialSummary, verbose: bool) -> None:
    """The baseline, then what was tried, best first; what was not tried last."""
    told = trial.steps or trial.replay
    if not told and all(is_dull(row) for row in trial.rows):
        return
    canvas.blank()
    canvas.paragraph(baseline_words(trial))
    if trial.replay is not None:
        canvas.paragraph(replay_words(trial.replay), hang=10)
    rows = trial_rows(trial, verbose)
    _table(canvas, rows)
    dull = sum(is_dull(row) for row in trial.rows)
    if dull and not verbose:
        named = count(dull, "more change" if rows else "change")
        canvas.paragraph(tr("{named} not tried: --verbose", named=named), indent=2)


def _table(canvas: Canvas, rows: list[tuple[str, ...]]) -> None:
    """Aligned cells; what does not fit goes below, indented."""
    widths = [max((cells(row[column]) for row in rows), default=0) for column in range(4)]
    for row in rows:
        aligned = [padded(cell, width) for cell, width in zip(row, widths, strict=False) if width]
        canvas.paragraph_raw("  ".join([*aligned, row[-1]]), indent=2, hang=4)


def trial_ending(canvas: Canvas, trial: TrialSummary) -> None:
    """The patch, how to apply it, and that nothing else was changed."""
    if trial.patch_path:
        changed = sum(line[:1] in "+-" and line[:3] not in ("+++", "---") for line in trial.patch.splitlines())
        canvas.literal(
            tr("patch: {patch_path} ({lines})", patch_path=one_line(trial.patch_path), lines=count(changed, "line"))
        )
    if trial.kept:
        canvas.paragraph(tr("changed by --keep: {files}", files=", ".join(map(one_line, trial.kept))), hang=2)
    elif trial.patch:
        canvas.literal(tr("apply it: the same command with --keep"))
    for said, items in (
        (template("not written: {shown}"), trial.kept_out),
        (template("not sent: {shown}"), trial.not_sent),
    ):
        more = len(items) - _KEPT_OUT
        if items:
            shown = tr(said, shown=", ".join(map(one_line, items[:_KEPT_OUT])))
            canvas.paragraph(shown + (tr(" and {more} more", more=more) if more > 0 else ""), hang=2)
    if trial.protection:
        other = say("other ") if trial.kept else ""
        how = one_line(trial.protection)
        canvas.paragraph(tr("none of your {other}files was changed ({how})", other=other, how=how), hang=2)
