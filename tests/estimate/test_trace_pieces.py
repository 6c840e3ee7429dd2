"""Pieces of the trace that need no torch: the ledger, extrapolation, the child."""

import pytest

from gpudoctor.errors import IncompleteError
from gpudoctor.estimate import ask_child
from gpudoctor.estimate.real.config import pattern


@pytest.mark.parametrize(
    ("kinds", "prefix", "period"),
    [("aaaaaa", 0, 1), ("ababab", 0, 2), ("daaaaa", 1, 1), ("aaabaaabaa", 0, 4), ("abc", 0, 3)],
)
def test_what_repeats_in_a_row_of_blocks(kinds, prefix, period):
    found = pattern(kinds)
    assert (found.layers, found.prefix, found.period) == (len(kinds), prefix, period)
    assert all(kinds[depth - 1] == kinds[-1] for depth in found.depths())


def test_a_child_that_takes_too_long_is_stopped(monkeypatch):
    monkeypatch.setattr(ask_child, "child_code", lambda _: "import time; time.sleep(60)")
    with pytest.raises(IncompleteError, match=r"the trace took longer than 200 ms"):
        ask_child.ask_child("", {}, "the trace", 0.2)


def test_a_child_that_ends_without_an_answer_says_its_last_words(monkeypatch):
    monkeypatch.setattr(ask_child, "child_code", lambda _: "raise SystemExit('no torch here')")
    with pytest.raises(IncompleteError, match=r"the trace ended without an answer \(exit code 1\): no torch here"):
        ask_child.ask_child("", {}, "the trace", 60.0)
