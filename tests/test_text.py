"""Amounts in sentences."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpudoctor.text import count, cut, duration, forecast, interval, percent, quantity, size


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


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (0.583, "58 %"), (1, "100 %"), (0.0996, "10 %"), (0.042, "4.2 %"), (0.05, "5 %"), (0.00314, "0.31 %"),
        (0.00001, "0 %"), (0, "0 %"), (-0.042, "-4.2 %"), (2.5, "250 %"), (float("nan"), "unknown"),
    ],
)  # fmt: skip
def test_a_share_has_two_digits(share, text):
    assert percent(share) == text


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        (0, "0 B"), (1000, "1,000 B"), (1024, "1 KiB"), (64 << 20, "64 MiB"), (1.5 * 2**30, "1.5 GiB"),
        (79.2 * 2**30, "79.2 GiB"), (1023 << 30, "1,023 GiB"), (-(1 << 30), "-1 GiB"), (float("inf"), "unknown"),
    ],
)  # fmt: skip
def test_bytes_have_three_digits(amount, text):
    assert size(amount) == text


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (True, "1", "yes"), ("sgd", "", "sgd"), (1e9, "B/s", "1 GB/s"), (7.945e14, "FLOP/s", "794 TFLOP/s"), (1.98e9, "Hz", "1.98 GHz"), (0.25, "1", "25 %"), (25.5, "1", "25.5"),
        (1, "{steps}", "1 step"), (50, "{steps}", "50 steps"), (1, "{batches}", "1 batch"), (71, "Cel", "71 °C"),
    ],
)  # fmt: skip
def test_a_quantity_has_its_unit_in_the_right_number(value, unit, text):
    assert quantity(value, unit) == text


def test_an_interval_and_a_count():
    assert interval(1.31, 1.37) == "1.31 to 1.37"
    assert (count(1, "GPU"), count(1240, "step")) == ("1 GPU", "1,240 steps")


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
