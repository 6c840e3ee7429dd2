"""What a track record does to a warning that only the source shows."""

import pytest

from gpudoctor.model import Check, Code, Confidence, Reads, Severity, SourceSpan, TrackRecord
from gpudoctor.model.check import track_record_text

PLACE = (SourceSpan(path="train.py", line=3, text="loss.item()"),)


def found(record, *, costs_time=True, severity=Severity.WARNING, confidence=Confidence.SUSPECTED):
    class Slow(Check):
        """A check of a test."""

        code = Code("TEST001")
        name = "slow"
        reads = frozenset({Reads.SOURCE})

        def examine(self, patient):
            yield self.finding("It is slow.", evidence=PLACE, confidence=confidence, severity=severity)

    Slow.track_record, Slow.costs_time = record, costs_time
    [finding] = Slow().examine(None)
    return finding.severity


def test_a_suspected_loss_of_time_of_an_often_wrong_check_is_a_note():
    assert found(TrackRecord(right=3, wrong=2)) is Severity.NOTE


@pytest.mark.parametrize(
    "record",
    [None, TrackRecord(right=0, wrong=4), TrackRecord(right=6, wrong=2), TrackRecord(right=9, wrong=0)],
)
def test_a_check_that_is_mostly_right_or_hardly_judged_warns(record):
    assert found(record) is Severity.WARNING


@pytest.mark.parametrize(
    "case",
    [
        {"confidence": Confidence.CONFIRMED},
        {"confidence": Confidence.PROBABLE},
        {"severity": Severity.ERROR},
        {"costs_time": False},
    ],
)
def test_what_was_measured_breaks_the_job_or_spoils_its_result_stays(case):
    expected = case.get("severity", Severity.WARNING)
    assert found(TrackRecord(right=0, wrong=9), **case) is expected


def test_the_manual_says_both_numbers_and_what_follows():
    said = track_record_text(TrackRecord(right=5, wrong=7), costs_time=True)
    assert said == (
        "5 of 12 warnings from source alone were right on public code; it is a note until a run has measured it"
    )
    assert track_record_text(TrackRecord(right=5, wrong=7), costs_time=False).endswith("right on public code")
