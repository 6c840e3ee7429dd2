"""What a report leaves out by default: rows of one story, small shares, places said twice, reasons of skips."""

import json
import re
from dataclasses import replace

import pytest
from recordings import make_process, make_recording, make_steps, write_recording
from sample_reports import LOADER, full_report

from gpudoctor.cli import main
from gpudoctor.model import SourceSpan
from gpudoctor.model.log_message import LogMoment, LogSummary
from gpudoctor.model.proof import Conclusion, Proof, TrialRow, TrialSummary
from gpudoctor.report import render
from gpudoctor.report.run_words import moment_rows
from gpudoctor.report.units import finding_text


def moment(role, line, rank, text="Watchdog caught a timeout", count=1):
    place = {"path": "job.log", "line": line, "last_line": line, "count": count, "rank": rank}
    return LogMoment(role=role, code="", kind="watchdog", node="", time="", step=None, text=text, **place)


def test_a_consequence_on_many_ranks_is_one_row():
    moments = [moment("root", 9, 11, "killed"), *(moment("cascade", 10 + at, at % 15, count=2) for at in range(60))]
    log = LogSummary(
        files=("job.log",), lines=99, bytes=999, ranks=(), world=16, last_step=None, rank=11, finished=False,
        died=True, moments=tuple(moments),
    )  # fmt: skip
    assert list(moment_rows(log)) == [
        ("first cause", "line 9, rank 11", "killed"),
        ("follows", "lines 10-69 (120x), 15 ranks", "Watchdog caught a timeout"),
    ]
    for format in ("html", "markdown"):
        assert render(replace(full_report(), log=log), format).count("Watchdog caught a timeout") == 1


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("It waits (train.py:8 and train.py:9).", "It waits."),
        ("It waits (train.py:8 and data.py:3).", "It waits (train.py:8 and data.py:3)."),
        ("It waits (num_workers=0).", "It waits (num_workers=0)."),
    ],
)
def test_a_place_that_the_evidence_names_is_not_said_twice(message, said):
    spans = tuple(SourceSpan(path="train.py", line=line, text="x = 1") for line in (8, 9))
    finding = replace(LOADER, message=message, evidence=spans)
    assert finding_text(finding) == said
    assert finding_text(finding, 1) == message


def test_a_page_numbers_a_line_once(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    span = SourceSpan(path="gone.py", line=4711, text="x = 1")
    [item, *_] = full_report().findings
    item = replace(item, finding=replace(item.finding, message="It waits.", evidence=(span,)), remedies=())
    page = render(replace(full_report(), findings=(item,), silenced=()), "html")
    assert page.count("4711") == 1 and "gone.py" in page


def test_small_phases_have_no_row(tmp_path, capsys):
    run = make_recording(make_process(make_steps(300, data_wait=0.02, checkpoint=0.0002)))
    folder = str(write_recording(run, tmp_path / "rec"))
    assert main(["report", folder, "--verbose"]) == 0
    shown = capsys.readouterr().out
    assert re.search("^  data wait ", shown, re.MULTILINE) and not re.search("^  checkpoint ", shown, re.MULTILINE)
    assert main(["compare", folder, folder, "--json"]) == 0
    assert "checkpoint" not in [row["name"] for row in json.loads(capsys.readouterr().out)["phases"]]


def test_what_was_tried_is_in_every_format():
    proof = Proof(ratio=1.5, low=1.4, high=1.6, pairs=4, loss="identical", verdict="faster")
    row = TrialRow(name="DATA001-workers", title="t", conclusion=Conclusion.PROVEN, proof=proof, step_seconds=0.2)
    trial = TrialSummary(step_seconds=0.3, warm_up_steps=8, steps=64, rows=(row,), seconds=60.0, budget=90.0)
    for format in ("html", "markdown"):
        text = render(replace(full_report(), trial=trial), format)
        assert "1.50x" in text and "without a change" in text and "300 ms a step in the pairs" in text


def test_a_comment_names_no_reasons_of_skips():
    assert "Skipped:" not in render(full_report(), "markdown")
