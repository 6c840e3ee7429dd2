"""One judgement for what a recorded run and a watched process show."""

from dataclasses import replace

import pytest
from recordings import make_recording

from gpudoctor.analysis.observation import Observation, suspicions
from gpudoctor.model import Confidence, Facts, ReaderCrashed, Severity, SourceSpan, Unavailable
from gpudoctor_checks.sync.per_sample_metrics import PerSampleMetrics

LINE = SourceSpan(path="/job/src/train.py", line=41, text="f1_score(y, p)")
SEEN = Observation(
    share=0.123456789, least=0.08, worth=0.1, words="12 % of 100 stack samples", where="", spans=(LINE,),
    reproduce="py-spy dump --pid 7",
)  # fmt: skip
RAN = replace(SEEN, least=SEEN.share, recording=make_recording(), reproduce="gpudoctor report run")


def found(seen, suspected=()):
    check = PerSampleMetrics()
    return seen.finding(check, "It costs.", name="metrics_share", severity=Severity.NOTE, suspected=suspected)


@pytest.mark.parametrize(
    ("share", "least", "level"),
    [
        (0.2, 0.2, Severity.WARNING),
        (0.06, 0.06, Severity.NOTE),
        (0.04, 0.04, None),
        (0.2, 0.03, Severity.WARNING),
        (0.2, 0.02, None),  # so few samples may be chance
    ],
)
def test_a_share_counts_where_it_is_not_chance(share, least, level):
    assert replace(SEEN, share=share, least=least).level(PerSampleMetrics()) is level


def test_a_finding_of_its_own_says_what_was_seen_and_what_it_is_worth():
    live, run = found(SEEN), found(RAN)
    assert (live.subject, run.subject) == ("train.py:41", "/job/src/train.py:41")
    assert [live.evidence[1].value, run.evidence[1].value] == [0.1235, 0.123457]
    assert [item.evidence[1].reproduce for item in (live, run)] == ["py-spy dump --pid 7", "gpudoctor report run"]
    assert live.cost.step_share == run.cost.step_share == 0.1 and live.confidence is Confidence.CONFIRMED


def test_a_suspicion_at_the_place_is_confirmed_and_keeps_what_it_knows():
    source = PerSampleMetrics().finding(
        "f1_score runs on the CPU on every step.", evidence=(LINE,), confidence=Confidence.SUSPECTED,
        subject="src/train.py:39", detail=Facts(period=1, norm=10),
    )  # fmt: skip
    grown = found(SEEN, [source])
    assert (grown.message, grown.confidence, grown.subject) == (
        "It costs.", Confidence.CONFIRMED, "src/train.py:39")  # fmt: skip
    assert grown.evidence.count(LINE) == 1 and grown.detail == source.detail
    elsewhere = replace(source, evidence=(replace(LINE, line=3),))
    assert found(SEEN, [elsewhere, elsewhere]).subject == "train.py:41"


@pytest.mark.parametrize("error", [Unavailable("no script"), ReaderCrashed("boom")])
def test_without_a_source_what_was_seen_speaks_alone(error):
    def suspect():
        raise error

    assert found(SEEN, suspicions(suspect, SEEN)).subject == "train.py:41"
    with pytest.raises(type(error)):
        suspicions(suspect, None)
    assert suspicions(suspect, None, refuted=True) == []
