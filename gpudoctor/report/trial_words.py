"""Trials in words and rows, for every format that people read."""

import math

from gpudoctor.lang import term, tr, word
from gpudoctor.model.proof import TIME_RAN_OUT, Conclusion, Proof, Replay, TrialRow, TrialSummary
from gpudoctor.report.printable import one_line
from gpudoctor.report.run_words import rate_text
from gpudoctor.text import count, duration, interval, size

_MEMORY_CHANGE, _MEMORY_FLOOR = 0.05, 64 << 20
"""Share of memory and bytes below which a change of it is not shown."""


def trial_rows(trial: TrialSummary, verbose: bool = False) -> list[tuple[str, ...]]:
    """Name, step, ratio, loss and conclusion of each change, the proven ones and them together first."""
    rows = [_cells(row) for row in trial.rows if verbose or not is_dull(row)]
    if trial.together is not None:
        proven = sum(row.conclusion in (Conclusion.PROVEN, Conclusion.CURED) for row in trial.rows)
        rows.insert(proven, _cells(trial.together))
    return rows


def baseline_words(trial: TrialSummary) -> str:
    """What a step takes without a change, over how much, in how much of the time."""
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


def replay_words(replay: Replay) -> str:
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
    """Name, step, ratio with its interval, loss, and how it ended."""
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
    """How much more or less memory it takes, where that is worth a word."""
    if proof.memory is None:
        return ""
    before, after = proof.memory
    if abs(after - before) < max(_MEMORY_CHANGE * before, _MEMORY_FLOOR):
        return ""
    sign = "+" if after > before else "-"
    return tr(", {change}", change=f"{sign}{size(abs(after - before))}")


def is_dull(row: TrialRow) -> bool:
    """Whether nobody would try it here; what only lacked time is worth a line."""
    return row.conclusion is Conclusion.NOT_TRIED and row.reason != TIME_RAN_OUT
