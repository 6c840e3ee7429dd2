"""What a track record does to what only the source shows, and where a user sees it."""

import pytest

from gpudoctor.cli import main
from gpudoctor.engine.runner import run_checks
from gpudoctor.model import Check, Code, Confidence, Found, Passed, Reads, Severity, Skipped, SourceSpan, TrackRecord
from gpudoctor.testing import make_patient

PLACE = (SourceSpan(path="train.py", line=3, text="loss.item()"),)


def outcome(monkeypatch, record, *confidences, severity=Severity.WARNING, preview=False):
    class Slow(Check):
        """A check of a test."""

        code = Code("TEST001")
        name = "slow"
        reads = frozenset({Reads.SOURCE})

        def examine(self, patient):
            for number, confidence in enumerate(confidences):
                yield self.finding(
                    "It is slow.", evidence=PLACE, confidence=confidence, severity=severity, subject=str(number)
                )

    monkeypatch.setattr("gpudoctor.engine.runner.track_record", lambda check: record)
    [result] = run_checks(make_patient(), [Slow], {}, preview=preview)
    return result


def severities(result):
    return [item.severity for item in result.findings]


@pytest.mark.parametrize(
    ("record", "follows"),
    [
        (TrackRecord(), "warning"),
        (TrackRecord(right=3, wrong=2), "note"),
        (TrackRecord(right=0, wrong=4), "warning"),
        (TrackRecord(right=9, wrong=0, suspected="note"), "note"),
    ],
)
def test_a_suspicion_of_an_often_wrong_check_is_a_note(monkeypatch, record, follows):
    assert record.follows == follows
    assert severities(outcome(monkeypatch, record, Confidence.SUSPECTED)) == [Severity(follows)]
    assert severities(outcome(monkeypatch, record, Confidence.CONFIRMED)) == [Severity.WARNING]
    assert severities(outcome(monkeypatch, record, Confidence.SUSPECTED, severity=Severity.ERROR)) == [Severity.ERROR]


HELD = TrackRecord(right=1, wrong=9, suspected="preview")


def test_what_waits_for_preview_is_skipped_by_choice_and_what_was_measured_is_not(monkeypatch):
    held = outcome(monkeypatch, HELD, Confidence.SUSPECTED)
    assert isinstance(held, Skipped) and held.deselected and held.held and "--preview" in held.reason
    assert severities(outcome(monkeypatch, HELD, Confidence.SUSPECTED, preview=True)) == [Severity.WARNING]
    both = outcome(monkeypatch, HELD, Confidence.SUSPECTED, Confidence.CONFIRMED)
    assert isinstance(both, Found) and [item.confidence for item in both.findings] == [Confidence.CONFIRMED]
    assert isinstance(outcome(monkeypatch, HELD), Passed)


def test_the_manual_says_both_numbers_and_what_follows():
    assert TrackRecord(right=5, wrong=7).text.endswith(
        "5 of 12 errors and warnings from source alone were right on public code; it is a note until a run has measured it"
    )
    assert HELD.text.endswith("without a run, only `--preview` shows it")
    assert TrackRecord(right=9, wrong=1).text.endswith("right on public code")


def test_a_code_that_is_gone_is_explained_and_may_stay_in_settings(tmp_path, capsys):
    assert main(["explain", "perf008"]) == 0
    assert "PERF012" in capsys.readouterr().out
    settings = tmp_path / "gpudoctor.toml"
    settings.write_text('ignore = ["shapes-misaligned"]\n[thresholds]\nDIST010.long = 5\n')
    script = tmp_path / "one.py"
    script.write_text("print(1)\n")
    assert main(["check", str(script), "--config", str(settings), "-q"]) in (0, 1)
    assert main(["check", str(script), "--select", "PERF008"]) == 2
