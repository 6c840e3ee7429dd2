"""The part of a text report that shows trials: a line a change, the patch, and what was left as it was."""

import math

from gpudoctor.lang import say, template, term, tr, word
from gpudoctor.lang.wrapping import cells, padded
from gpudoctor.model.proof import TIME_RAN_OUT, Conclusion, Proof, Replay, TrialRow, TrialSummary
from gpudoctor.report.printable import one_line
from gpudoctor.report.run_words import rate_text
from gpudoctor.text import count, duration, interval, size
from gpudoctor.ui.console.canvas import Canvas

_KEPT_OUT = 4
_MEMORY_CHANGE, _MEMORY_FLOOR = 0.05, 64 << 20
"""Share of memory and bytes below which a change of it is not shown."""


def trial_table(canvas: Canvas, trial: TrialSummary, verbose: bool) -> None:
    """The baseline, then what was tried, best first; what was not tried last."""
    told = trial.steps or trial.replay
    if not told and all(_dull(row) for row in trial.rows):
        return
    canvas.blank()
    canvas.paragraph(_baseline(trial))
    if trial.replay is not None:
        canvas.paragraph(_replay(trial.replay), hang=10)
    rows = [_cells(row) for row in trial.rows if verbose or not _dull(row)]
    if trial.together is not None:
        rows.insert(
            sum(row.conclusion in (Conclusion.PROVEN, Conclusion.CURED) for row in trial.rows), _cells(trial.together)
        )
    _table(canvas, rows)
    dull = sum(_dull(row) for row in trial.rows)
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


def _baseline(trial: TrialSummary) -> str:
    spent = tr(
        "{seconds} of {budget}",
        seconds=duration(float(round(trial.seconds))),
        budget=duration(float(round(trial.budget))),
    )
    if trial.step_seconds is None:
        if trial.steps and trial.seconds >= trial.budget:
            return tr("baseline  not timed: no time for the first pair ({spent}); give more with --budget", spent=spent)
        return tr("baseline  not timed: there was nothing to compare it with ({spent})", spent=spent)
    window = tr(
        "{warm_up} of warm-up excluded, {measured:,} measured in every run",
        warm_up=count(trial.warm_up_steps, "step"),
        measured=trial.steps,
    )
    return tr(
        "without a change  {step_seconds} a step in the pairs ({window}; {spent})",
        step_seconds=duration(trial.step_seconds),
        window=window,
        spent=spent,
    )


def _replay(replay: Replay) -> str:
    """One line: the finding below tells the story."""
    spent = duration(float(round(replay.seconds)))
    if not replay.reproduced:
        return tr(
            "replay    step {step}: {reason} ({spent})", step=replay.step, reason=one_line(replay.reason), spent=spent
        )
    span = replay.place
    parts = [word(replay.cause.value.replace("-", " ")) if replay.cause else "", replay.operation, word(replay.phase)]
    if span is not None:
        parts.append(f"{span.path}:{span.line}")
    return tr(
        "replay    step {step}: {parts} ({spent})",
        step=replay.step,
        parts=one_line(", ".join(part for part in parts if part)),
        spent=spent,
    )


def _cells(row: TrialRow) -> tuple[str, ...]:
    proof = row.proof
    said = word(row.conclusion.value) + (tr(": {reason}", reason=one_line(row.reason)) if row.reason else "")
    step = duration(row.step_seconds) if row.step_seconds is not None else ""
    if proof is None:
        # Of a run that has no pair.
        parts = (
            [tr("{rate} samples/s", rate=rate_text(row.samples_per_second))]
            if row.samples_per_second is not None
            else []
        )
        parts += [size(row.memory)] if row.memory is not None else []
        return row.name, step, "", "", said + "".join(tr(", {part}", part=part) for part in parts)
    loss = tr("loss {loss}", loss=term(proof.loss)) if proof.loss else tr("no loss seen") if proof.pairs else ""
    if row.conclusion is Conclusion.MOVED:
        loss = ""  # the last column says it
    ratio = (
        ""
        if math.isnan(proof.ratio) or proof.undecided
        else tr("{ratio} ({span})", ratio=f"{proof.ratio:.2f}x", span=interval(proof.low, proof.high))
    )
    stalled = tr(", {pairs} excluded", pairs=count(proof.aside, "stalled pair")) if proof.aside else ""
    return row.name, step, ratio, loss, said + _memory(proof) + stalled


def _memory(proof: Proof) -> str:
    if proof.memory is None:
        return ""
    before, after = proof.memory
    if abs(after - before) < max(_MEMORY_CHANGE * before, _MEMORY_FLOOR):
        return ""
    sign = "+" if after > before else "-"
    return tr(", {change}", change=f"{sign}{size(abs(after - before))}")


def _dull(row: TrialRow) -> bool:
    """Whether nobody would try it here; what only lacked time is worth a line."""
    return row.conclusion is Conclusion.NOT_TRIED and row.reason != TIME_RAN_OUT
