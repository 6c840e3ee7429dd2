"""Amounts in sentences."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpudoctor.analysis.live import stack_shares
from gpudoctor.analysis.run import steady_run
from gpudoctor.model.amounts import cut, duration, forecast
from gpudoctor.report.units import seconds_text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"), (0.000012, "12 µs"), (0.0239, "23.9 ms"), (0.99996, "1 s"), (1.5, "1.5 s"), (59.98, "60 s"),
        (90, "90 s"), (119.7, "2 min"), (125, "2m05s"), (1800, "30 min"), (3599.6, "1 h"), (8040, "2h14m"),
        (1e6, "277h47m"), (-90, "-90 s"), (float("nan"), "unknown"), (float("inf"), "unknown"),
    ],
)  # fmt: skip
def test_a_duration_reads_as_a_person_says_it(seconds, text):
    assert duration(seconds) == text


@given(st.floats(min_value=1e-6, max_value=1e9))
def test_no_duration_has_an_exponent_or_four_digits_of_seconds(seconds):
    text = duration(seconds)
    assert "e" not in text
    amount, _, unit = text.rpartition(" ")
    assert (unit, "," in amount) != ("s", True)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.4, "0 s"), (89.6, "90 s"), (205.0, "3 min"), (1273, "21 min"), (5430, "1h30m"), (100_000, "28 h")],
)
def test_a_forecast_claims_no_more_than_a_trend_knows(seconds, text):
    assert forecast(seconds) == text
    assert forecast(float("inf")) == "unknown"


def test_every_message_uses_the_one_formatter():
    assert steady_run.duration is duration and stack_shares.duration is duration
    assert seconds_text(1800) == duration(1800)


@pytest.mark.parametrize(
    ("text", "longest", "said"),
    [
        ("two words", 9, "two words"),
        ("two words and more", 14, "two words..."),
        ("an-argument-without-any-blank", 14, "an-argument..."),
        ("a long-word-behind-a-short-one", 14, "a long-word..."),
    ],
)
def test_a_cut_text_ends_between_words(text, longest, said):
    assert cut(text, longest) == said
    assert len(said) <= longest
