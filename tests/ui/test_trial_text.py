"""The table of trials: a moved loss is said once, and what only lacked time has its line."""

from dataclasses import replace

import pytest
from sample_reports import healthy_report

from gpudoctor.model.proof import TIME_RAN_OUT, Conclusion, Proof, TrialRow, TrialSummary
from gpudoctor.ui.console.text_report import render_text

MOVED = Proof(ratio=2.0, low=1.9, high=2.1, pairs=3, verdict="faster", loss="moved")


def shown(row: TrialRow) -> str:
    trial = TrialSummary(step_seconds=0.1, warm_up_steps=5, steps=50, rows=(row,), seconds=60, budget=360)
    return render_text(replace(healthy_report(), trial=trial), width=120, colour=False)


@pytest.mark.parametrize(("kept", "which"), [(("a.py",), "other "), ((), "")])
def test_what_became_of_the_files_is_said(kept, which):
    row = TrialRow(name="A", title="a=1", conclusion=Conclusion.MEASURED, memory=1 << 30)
    trial = TrialSummary(step_seconds=0.1, warm_up_steps=5, steps=50, rows=(row,), seconds=60, budget=360)
    trial = replace(trial, protection="overlay", kept=kept)
    text = render_text(replace(healthy_report(), trial=trial), width=120, colour=False)
    assert f"none of your {which}files was changed (overlay)\n" in text and ", 1 GiB\n" in text


def test_a_moved_loss_is_said_once():
    text = shown(TrialRow(name="A", title="a=1", conclusion=Conclusion.MOVED, proof=MOVED, step_seconds=0.05))
    assert text.count("loss moved") == 1


@pytest.mark.parametrize(("reason", "named"), [(TIME_RAN_OUT, True), ("a person must do it", False)])
def test_a_change_for_which_the_time_ran_out_is_named(reason, named):
    text = shown(TrialRow(name="DATA001-workers", title="a=1", conclusion=Conclusion.NOT_TRIED, reason=reason))
    assert ("DATA001-workers" in text and "give more with --budget" in text) is named
